package kernel

// MixedKernels advance a block of 8 members of kind mixed (docs/mixed-bank.md),
// one member in each lane, in place in the state.
type MixedKernels struct {
	Taps, Recurrent func(*MixedSteps)

	// Gather brings the values of a block's inputs together, for n samples, as
	// MixedSteps.Values: at has for each input and member its first value's place
	// from series on, in bytes.
	Gather func(values, series *float32, at *int32, inputs, n int)

	// Features writes the features of a block, in the order of its members, from its
	// words of the state; count is the number of counted samples.
	Features func(features *float32, state *uint32, count float32)
}

// MixedSteps is one call of a mixed kernel: Count samples, from number Number of
// the sequence, of one block of one stream. All buffers belong to the caller. The
// assembly uses the fields by offset, and may count Count down.
type MixedSteps struct {
	Consts  *float32
	Weights *float32 // by half of the units: of 8 units 8 members each: bias, inputs, then own weights or states
	Values  *float32 // by sample: Inputs vectors, a member's input in each lane
	State   *uint32  // the block's words
	Bits    *uint32  // its signs
	Signs   *float32 // MixedRoom, for the kernel's own use
	Held    *float32 // as for Signs
	Inputs  int      // at least 1
	Count   int      // 1 to 255: counts may be bytes
	Number  int      // of the first sample, from 1
	Mask    int      // a sample is counted if its number has none of these bits
}

// MixedRoom is the size of MixedSteps.Signs and Held.
const MixedRoom = 160
