package kernel

import "unsafe"

// The assembly's offsets are this structure's.
var _ = [1]struct{}{}[(unsafe.Offsetof(Steps{}.Tiles)-offsetTiles)|(unsafe.Offsetof(Steps{}.CurState)-offsetCurState)|
	(unsafe.Offsetof(Steps{}.Inputs)-offsetInputs)|(unsafe.Offsetof(Steps{}.Selected)-offsetSelected)|
	(unsafe.Offsetof(Steps{}.Pending)-offsetPending)|(unsafe.Offsetof(Steps{}.Sums)-offsetSums)|(unsafe.Offsetof(Steps{}.Gain)-offsetGain)|
	(unsafe.Offsetof(Steps{}.Keep)-offsetKeep)|(unsafe.Offsetof(Steps{}.Count)-offsetCount)|(unsafe.Offsetof(Steps{}.Units)-offsetUnits)|
	(unsafe.Offsetof(Steps{}.Ahead)-offsetAhead)]
