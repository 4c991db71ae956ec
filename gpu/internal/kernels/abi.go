package kernels

// Run is one record of the buffer Args.Runs: advance Slot by Count samples from
// sample From on. Cut makes these records.
type Run struct {
	Slot, From, Count uint32
	Flags             uint32 // RunReset, RunEmit
	Steps             uint32 // samples of the sequence before this run; 0 with RunReset
	Score             uint32 // with RunEmit: the emit of the call whose scores it fills
}

// Flags of a Run.
const (
	RunReset = 1 << iota // the state starts a new sequence first
	RunEmit              // scores are written after the last sample
)

// member is one block of the bank, in the image.
type member struct {
	Inputs, Weights uint32 // words of the image
	Count           uint32
	Keep, Gain      float32
	_               [3]uint32
}

// block is 8 members of kind mixed, in the image.
type block struct {
	Seen, SeenCount, Counts, Sources, Weights uint32 // words of the image, but SeenCount
	Columns                                   uint32
}

// tile is up to scoreColumns columns of one readout, in the readouts image.
type tile struct {
	Center, Weights uint32 // words of the readouts image
	Columns, First  uint32
}

// Shape holds the sizes of network and readouts for every kernel; Program fills
// Shape.
type Shape struct {
	Channels, Inputs, Members, Units, Stride, Flags                  uint32
	RowWords, Previous, First, MemberWords                           uint32
	State, SumLow, SumHigh, Positive, Maximum, SquareLow, SquareHigh uint32
	Norm, MemberTable, InputsMost                                    uint32
	Features, ScoreWidth                                             uint32
}

// Bank is what kind mixed has beyond Shape: words of a row, the largest lag, and
// the image word of the blocks.
type Bank struct{ Ring, Lags, Signs, Blocks uint32 }

// Args is the one parameter of every kernel, 184 bytes: pass its address as the
// only entry of the driver's kernelParams. The addresses are device addresses.
// Program.Launches fills Args.
type Args struct {
	Rows, Image, Inputs, Runs, Emits, Readouts, Scores, Work uint64
	Shape                                                    Shape
	Bank                                                     Bank
	RunCount, EmitCount, Step, Chunk                         uint32
}

const (
	scoreColumns  = 8
	shapeRing     = 1
	shapeStandard = 2
	shapeDiffer   = 4
	shapeLast     = 8 // the features follow in canonical order
	shapeCubic    = 256
	shapeClip     = 512
	absent        = ^uint32(0)
)
