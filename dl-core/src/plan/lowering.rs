//! Lowering of steps to a basic block.

use crate::graph::basic_block::{
    BasicBlock, BlockInstruction, BlockKernel, BlockOp, BlockRead, BlockView, ElementType, Elements,
};
use crate::graph::node::DataVTable;
use crate::graph::value::Value;
use crate::plan::program::{Program, Source, StepValues, number};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Blocks with a larger memory are not built.
const MOST_ELEMENTS: usize = 1 << 16;

/// A basic block, as a part of a program.
pub(super) struct BlockTask {
    kernel: Box<dyn BlockKernel>,
    pub(super) inputs: Vec<BlockInput>,
    /// The steps that others read.
    results: Vec<(u32, BlockView)>,
    /// All steps, in order.
    pub(super) members: Vec<u32>,
    /// The size of its memory.
    pub(super) bytes: usize,
}

/// A value from outside of the block.
pub(super) struct BlockInput {
    pub(super) source: Source,
    vtable: &'static DataVTable,
    /// Whether its elements were in row-major order, in one piece. The bits of a product can depend
    /// on it.
    in_place: bool,
}

/// The operation of a step, if a block may have it.
pub(super) type OpOfStep = Option<(BlockOp, ElementType)>;

impl BlockTask {
    /// A block of these steps, which all have operations; `None` if it has a large memory.
    pub(super) fn of(
        program: &Program,
        members: &[usize],
        ops: &[OpOfStep],
        (inputs, values): (&[&Value], &StepValues),
        keeps: &[bool],
    ) -> Option<BlockTask> {
        let mut lowering = Lowering::default();
        for &at in members {
            let (op, _) = ops[at].as_ref()?;
            let step = &program.steps[at];
            let reads = step.inputs.iter().zip(step.node.operands());
            let reads: Option<SmallVec<[BlockRead; 3]>> = reads
                .map(|(&source, operand)| lowering.read(source, operand.vtable, program.value(source, inputs, values)))
                .collect();
            lowering.add(at, op, reads?, len(values[at].as_ref()?, step.node.vtable)?);
        }
        let mut is_member = vec![false; program.steps.len()];
        members.iter().for_each(|&at| is_member[at] = true);
        let mut is_read = keeps.to_vec();
        let others = program.steps.iter().zip(&is_member).filter(|(_, member)| !**member);
        for source in others.flat_map(|(step, _)| &step.inputs) {
            if let &Source::Step(read) = source {
                is_read[read as usize] = true;
            }
        }
        let (mut results, mut start) = (Vec::new(), 0);
        for &at in members.iter().filter(|&&at| is_read[at]) {
            let (step, value) = (&program.steps[at], values[at].as_ref()?);
            results.push((number(at), (step.node.vtable.block_view)(value, start)?));
            let read = lowering.known[&Source::Step(number(at))].clone();
            start += read.range.len();
            lowering.block.results.push(read);
        }
        if lowering.block.len > MOST_ELEMENTS {
            return None;
        }
        lowering.note_stored();
        let vtable = program.steps[members[0]].node.vtable;
        let element = match vtable.element? {
            ElementType::F32 => size_of::<f32>(),
            ElementType::F64 => size_of::<f64>(),
        };
        Some(BlockTask {
            bytes: lowering.block.len * element,
            kernel: (vtable.compile_block)(lowering.block)?,
            inputs: lowering.inputs,
            results,
            members: members.iter().map(|&at| number(at)).collect(),
        })
    }

    /// Runs the block. Returns false, and computes nothing, if an input has another layout than that
    /// which the block was built for.
    pub(super) fn run(&self, program: &Program, inputs: &[&Value], values: &mut StepValues) -> bool {
        // Loops, because to collect into a vector on the stack takes longer than small operations.
        let mut computed: SmallVec<[Value; 16]> = SmallVec::new();
        {
            let values = &*values;
            let mut elements: SmallVec<[Elements<'_>; 16]> = SmallVec::new();
            for input in &self.inputs {
                match (input.vtable.elements)(program.value(input.source, inputs, values)) {
                    Some(of_input) if of_input.in_place() || !input.in_place => elements.push(of_input),
                    _ => return false,
                }
            }
            self.kernel.run(&elements, &mut |array| {
                for (_, view) in &self.results {
                    computed.push(view(array));
                }
            });
        }
        for ((step, _), value) in self.results.iter().zip(computed) {
            values[*step as usize] = Some(value);
        }
        true
    }
}

impl BlockTask {
    /// Drops what no step outside of the block reads, after its steps have run one by one.
    pub(super) fn keep_results(&self, values: &mut StepValues) {
        let is_result = |at: u32| self.results.iter().any(|&(result, _)| result == at);
        self.members.iter().filter(|&&at| !is_result(at)).for_each(|&at| values[at as usize] = None);
    }
}

#[derive(Default)]
struct Lowering {
    block: BasicBlock,
    inputs: Vec<BlockInput>,
    /// Where the value of an input or of a step is.
    known: FxHashMap<Source, BlockRead>,
}

impl Lowering {
    /// Where a value is. A value from outside of the block becomes an input.
    fn read(&mut self, source: Source, vtable: &'static DataVTable, value: &Value) -> Option<BlockRead> {
        if let Some(read) = self.known.get(&source) {
            return Some(read.clone());
        }
        let elements = (vtable.elements)(value)?;
        let read = BlockRead { input: Some(self.inputs.len()), range: 0..elements.len() };
        self.inputs.push(BlockInput { source, vtable, in_place: elements.in_place() });
        self.known.insert(source, read.clone());
        Some(read)
    }

    fn add(&mut self, at: usize, op: &BlockOp, reads: SmallVec<[BlockRead; 3]>, len: usize) {
        let read = match op {
            // A part without gaps is not copied.
            BlockOp::Part(part) if part.range().is_some() => {
                let Range { start, end } = part.range().expect("it was checked");
                let BlockRead { input, range } = reads[0].clone();
                BlockRead { input, range: range.start + start..range.start + end }
            }
            op => {
                let writes = self.block.len..self.block.len + len;
                self.block.len += len;
                let instruction = BlockInstruction { op: op.clone(), reads, writes: writes.clone(), is_stored: false };
                self.block.instructions.push(instruction);
                BlockRead { input: None, range: writes }
            }
        };
        self.known.insert(Source::Step(number(at)), read);
    }

    /// The results of pointwise operations are stored if they are results of the block, or if
    /// another operation reads them.
    fn note_stored(&mut self) {
        let others = self.block.instructions.iter().filter(|instruction| !instruction.op.is_pointwise());
        let reads = others.flat_map(|instruction| &instruction.reads).chain(&self.block.results);
        let stored: Vec<Range<usize>> =
            reads.filter(|read| read.input.is_none()).map(|read| read.range.clone()).collect();
        for BlockInstruction { op, writes, is_stored, .. } in &mut self.block.instructions {
            let is_read = |read: &Range<usize>| read.start < writes.end && writes.start < read.end;
            *is_stored = op.is_pointwise() && stored.iter().any(is_read);
        }
    }
}

/// The number of elements of a value.
fn len(value: &Value, vtable: &DataVTable) -> Option<usize> {
    Some((vtable.elements)(value)?.len())
}
