//! A path kept on the stack and written out only when something is wrong.

use ek_meta::FieldPath;

#[derive(Clone, Copy)]
enum Segment<'p> {
    Root,
    Field(&'p str),
    /// A key of a map: bracketed by field paths, dotted by schema errors.
    Key(&'p str),
    Index(usize),
}

pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    segment: Segment<'p>,
}

impl<'p> Path<'p> {
    pub(super) fn root() -> Path<'p> {
        Path { parent: None, segment: Segment::Root }
    }

    pub(super) fn field(&'p self, name: &'p str) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Field(name) }
    }

    pub(super) fn key(&'p self, name: &'p str) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Key(name) }
    }

    pub(super) fn index(&'p self, i: usize) -> Path<'p> {
        Path { parent: Some(self), segment: Segment::Index(i) }
    }

    /// `spec.labels[a]`.
    pub(super) fn to_field(&self) -> FieldPath {
        let base = self.parent.map(Path::to_field).unwrap_or_default();
        match self.segment {
            Segment::Root => base,
            Segment::Field(n) => base.child(n),
            Segment::Key(k) => base.key(k),
            Segment::Index(i) => base.index(i),
        }
    }

    /// `spec.labels.a`.
    pub(super) fn to_dotted(&self) -> FieldPath {
        let base = self.parent.map(Path::to_dotted).unwrap_or_default();
        match self.segment {
            Segment::Root => base,
            Segment::Field(n) | Segment::Key(n) => base.child(n),
            Segment::Index(i) => base.index(i),
        }
    }
}
