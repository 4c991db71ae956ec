//go:build simulation && chaos && linux

package main

import _ "unsafe" // for go:linkname

// simSeed sets the random numbers of the runtime inside of bubbles: of select, of the
// scheduler and of maps. The overlay of tools/simulate defines it.
//
//go:linkname simSeed runtime.simSeed
func simSeed(seed uint64)

// The overlay calls these after the event.
var (
	//go:linkname simOpened os.simOpened
	simOpened func(name string, flag int)
	//go:linkname simWrote os.simWrote
	simWrote func(name string)
	//go:linkname simSynced os.simSynced
	simSynced func(name string)
)
