//go:build simulation && chaos && linux

package main

import _ "unsafe" // for go:linkname

// simSeed sets the random numbers of the runtime inside of bubbles: of select, of the
// scheduler and of maps. The overlay of tools/simulate defines it.
//
//go:linkname simSeed runtime.simSeed
func simSeed(seed uint64)

// simSetWall sets how far a wall clock is ahead, in nanoseconds. Clock 0 is always right.
//
//go:linkname simSetWall runtime.simSetWall
func simSetWall(clock int, ahead int64)

// simSetClock gives the goroutine, and all that it starts, a wall clock.
//
//go:linkname simSetClock time.simSetClock
func simSetClock(clock int)

//go:linkname simGetClock time.simGetClock
func simGetClock() int

// The overlay calls these after the event, and simRoom before a write: it returns the number
// of bytes that the disk has room for.
var (
	//go:linkname simRoom internal/poll.simRoom
	simRoom func(fd, n int) int
	//go:linkname simWrote internal/poll.simWrote
	simWrote func(fd int)
	//go:linkname simSynced internal/poll.simSynced
	simSynced func(fd int)
)

// bootID names the present start of the machine in the outbox of a gateway.
//
//go:linkname bootID github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox.bootID
var bootID func() string
