package kernels

// Kernels with a single variant.
const (
	finish = iota
	scores
	mixedTaps6
	mixedTaps3
	mixedTaps
	mixedRecurrent
	mixedRecurrentAny
	mixedFinish
	mixedScores
	firstResident
)

// Names of the entry points, in the order of Launch.Kernel.
var Names = func() []string {
	names := []string{
		finish: "eusn_finish", scores: "eusn_scores",
		mixedTaps6: "eusn_mixed_taps_6", mixedTaps3: "eusn_mixed_taps_3", mixedTaps: "eusn_mixed_taps",
		mixedRecurrent: "eusn_mixed_recurrent", mixedRecurrentAny: "eusn_mixed_recurrent_any",
		mixedFinish: "eusn_mixed_finish", mixedScores: "eusn_mixed_scores",
	}
	for _, v := range residents {
		names = append(names, v.name)
	}
	for _, v := range streameds {
		names = append(names, v.name)
	}
	for _, v := range tensors {
		names = append(names, v.name)
	}
	return names
}()

// Dynamic reports whether a kernel, of Names, takes dynamic shared memory.
func Dynamic(kernel int) bool {
	return kernel >= mixedTaps6 && kernel <= mixedRecurrentAny || kernel >= firstResident && kernel < firstResident+len(residents)
}

// resident is a kernel that keeps one member's weights and the states of a tile
// of streams in shared memory. A thread holds units x streams sums.
type resident struct {
	name                    string
	features                bool // keeps accumulators
	tile                    int  // streams of a block
	units, streams, threads int  // of a thread, and threads of a block at most
}

// residents lists kernels, most streams first. Small tiles are for small
// batches, which would leave multiprocessors idle, and for weights that leave
// little shared memory.
var residents = []resident{
	{"eusn_resident_64", false, 64, 8, 8, 256},
	{"eusn_resident_32", false, 32, 8, 4, 256},
	{"eusn_resident_16", false, 16, 4, 2, 512},
	{"eusn_resident_8", false, 8, 4, 1, 512},
	{"eusn_resident_features_64", true, 64, 4, 4, 256},
	{"eusn_resident_features_32", true, 32, 4, 4, 512},
	{"eusn_resident_features_16", true, 16, 4, 2, 512},
	{"eusn_resident_features_8", true, 8, 4, 1, 512},
}

func (r *resident) block(stride int) int { return stride / r.units * (r.tile / r.streams) }

// streamed is a kernel that computes one sample of a tile of streams by a tile
// of units as a matrix product.
type streamed struct {
	name           string
	tile           int // streams of a block
	units, threads int // of a block
}

var streameds = []streamed{
	{"eusn_streamed_64", 64, 128, 128},
	{"eusn_streamed_16", 16, 64, 128},
	{"eusn_streamed_8", 8, 32, 64},
}

// tensors are streamed kernels on tensor cores, in the order of Products.
var tensors = []streamed{
	{"eusn_tensor3", 64, 128, 128},
	{"eusn_tensor2", 64, 128, 128},
}

// Blocks of the kernels with a single variant.
const (
	finishThreads = 128
	scoresThreads = 128
	mixedThreads  = 32
	scoresTile    = 64 // emitting runs of a block
	scoresDepth   = 32 // features staged at a time
	streamedDepth = 16 // inputs or states staged at a time
)
