//! Pointwise programs, interpreted or compiled, and the libraries of the other kernels.

use super::{OpenCl, State};
use crate::layout::{self, Argument, INSTRUCTIONS, NUMBERS, PLACES, Place, Shape};
use crate::source;
use dl_core::{DType, Result};
use dl_nd::device::{Code, Span, View, Work};
use opencl3::kernel::Kernel;
use opencl3::program::Program;

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
        let (of, to) = work.views();
        let views: Vec<&View> = of.into_iter().chain(to).collect();
        let (dtype, shape) = (code.element, Shape::new(&to[0].shape)?);
        let places: Vec<Place> = views.iter().map(|view| Place::new(view, dtype)).collect::<Result<_>>()?;
        let reads: Vec<Span> = views[..views.len() - to.len()].iter().map(|view| view.span()).collect();
        let mut writes: Vec<Span> = to.iter().map(View::span).collect();
        if views.len() > MANY {
            return Err(self.error("cannot run a program", format_args!("it has {} tensors", views.len())));
        }
        let program = state.program(code, &places);
        program.uses = program.uses.saturating_add(1);
        let is_short = code.instructions.len() <= INSTRUCTIONS && views.len() <= PLACES && numbers.len() <= NUMBERS;
        if is_short && program.kernel.is_none() && program.uses < self.settings.compile_from {
            let mut interpreted = layout::Program {
                shape,
                operands: reads.len() as i32,
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
            fill(&mut interpreted.places, places);
            // places that are not used get any memory
            while reads.len() + writes.len() < PLACES {
                writes.push(writes[0]);
            }
            let kernel = self.kernel(state, dtype, "dl_interpret")?;
            return self.record(state, kernel, shape.len, interpreted.bytes(), &reads, &writes);
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
        let mut argument = shape.bytes().to_vec();
        places.iter().for_each(|place| argument.extend_from_slice(place.bytes()));
        numbers.iter().for_each(|number| argument.extend_from_slice(number.bytes()));
        argument.resize((argument.len() + usize::from(numbers.is_empty()) * size_of::<T>()).next_multiple_of(8), 0);
        self.record(state, kernel, shape.len, &argument, &reads, &writes)
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
