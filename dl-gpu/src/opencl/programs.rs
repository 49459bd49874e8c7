//! Pointwise programs, interpreted or compiled, and the libraries of the other kernels.

use super::{OpenCl, State};
use crate::layout::{self, Argument, INSTRUCTIONS, NUMBERS, PLACES, Place, Shape};
use crate::source;
use dl_core::{DType, Result};
use dl_nd::device::{Code, View, Work};
use opencl3::kernel::Kernel;
use opencl3::program::Program;
use smallvec::SmallVec;
use std::iter::repeat_n;

/// The largest number of tensors of a program.
const MANY: usize = 64;

/// A pointwise program: how often it has been used, and its kernel.
#[derive(Default)]
pub(super) struct Compiled {
    uses: u32,
    kernel: Option<usize>,
}

impl OpenCl {
    /// Compiles a program.
    pub(super) fn build(&self, state: &mut State, text: &str) -> Result<Program> {
        state.counters.builds += 1;
        Program::create_and_build_from_source(&self.context, text, self.options)
            .map_err(|log| self.error("cannot compile a kernel", log))
    }

    /// The number of a kernel of this program.
    pub(super) fn add_kernel(&self, state: &mut State, program: &Program, name: &str) -> Result<usize> {
        let kernel = Kernel::create(program, name);
        state.kernels.push(kernel.map_err(|error| self.error(format_args!("has no kernel `{name}`"), error))?);
        Ok(state.kernels.len() - 1)
    }

    /// The number of the kernel of this name in the library of this type.
    pub(super) fn kernel(&self, state: &mut State, dtype: DType, name: &'static str) -> Result<usize> {
        if let Some(&kernel) = state.names.get(&(dtype, name)) {
            return Ok(kernel);
        }
        let library = match state.libraries.remove(&dtype) {
            Some(library) => library,
            None => self.build(state, &source::library(dtype, self.target))?,
        };
        let kernel = self.add_kernel(state, &library, name);
        state.libraries.insert(dtype, library);
        state.names.insert((dtype, name), kernel.clone()?);
        kernel
    }

    /// Records a pointwise program.
    pub(super) fn map<T: Argument + Default>(
        &self,
        state: &mut State,
        work: &Work<'_>,
        code: &Code,
        numbers: &[T],
    ) -> Result<()>
    where
        layout::Program<T>: Argument,
    {
        let to = work.writes();
        let (dtype, shape) = (code.element, Shape::new(&to[0].shape)?);
        let places = work.reads().chain(to).map(|view| Place::new(view, dtype));
        let places: SmallVec<[Place; PLACES]> = places.collect::<Result<_>>()?;
        let (reads, writes) = (work.reads().map(View::span), to.iter().map(View::written));
        if places.len() > MANY {
            return Err(self.error("cannot run a program", format_args!("it has {} tensors", places.len())));
        }
        let program = state.program(code, &places);
        program.uses = program.uses.saturating_add(1);
        let is_short = code.instructions.len() <= INSTRUCTIONS && places.len() <= PLACES && numbers.len() <= NUMBERS;
        if is_short && program.kernel.is_none() && program.uses < self.settings.compile_from {
            let mut interpreted = layout::Program {
                shape,
                operands: (places.len() - to.len()) as i32,
                results: to.len() as i32,
                instructions: code.instructions.len() as i32,
                unused: 0,
                code: [0; INSTRUCTIONS],
                stored: [0; PLACES],
                numbers: [T::default(); NUMBERS],
                places: [Place::NOWHERE; PLACES],
            };
            fill(&mut interpreted.code, code.instructions.iter().map(|&instruction| source::encoded(instruction)));
            fill(&mut interpreted.stored, code.results.iter().map(|&result| result as u32));
            fill(&mut interpreted.numbers, numbers.iter().copied());
            // places that are not used get any memory
            let writes = writes.chain(repeat_n(to[0].written(), PLACES - places.len()));
            fill(&mut interpreted.places, places);
            let kernel = self.kernel(state, dtype, "dl_interpret")?;
            return self.record(state, kernel, shape.len, interpreted.bytes(), reads, writes);
        }
        let kernel = match program.kernel {
            Some(kernel) => kernel,
            None => {
                let formats: Vec<i32> = places.iter().map(|place| place.format).collect();
                let built = self.build(state, &source::map(code, &formats, numbers.len(), self.target))?;
                let kernel = self.add_kernel(state, &built, "dl_map")?;
                state.program(code, &places).kernel = Some(kernel);
                kernel
            }
        };
        // the geometry of a program
        let size = size_of::<Shape>() + places.len() * size_of::<Place>() + numbers.len().max(1) * size_of::<T>();
        let size = size.next_multiple_of(8);
        let mut argument = Vec::with_capacity(size);
        argument.extend_from_slice(shape.bytes());
        places.iter().for_each(|place| argument.extend_from_slice(place.bytes()));
        numbers.iter().for_each(|number| argument.extend_from_slice(number.bytes()));
        argument.resize(size, 0);
        self.record(state, kernel, shape.len, &argument, reads, writes)
    }
}

impl State {
    /// The program with tensors of these formats.
    fn program(&mut self, code: &Code, places: &[Place]) -> &mut Compiled {
        if !self.programs.contains_key(code) {
            self.programs.insert(code.clone(), Vec::new());
        }
        let programs = self.programs.get_mut(code).expect("it was inserted");
        let formats = || places.iter().map(|place| place.format);
        let at = programs.iter().position(|(own, _)| own.iter().copied().eq(formats())).unwrap_or_else(|| {
            programs.push((formats().collect(), Compiled::default()));
            programs.len() - 1
        });
        &mut programs[at].1
    }
}

fn fill<T>(to: &mut [T], from: impl IntoIterator<Item = T>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from);
}
