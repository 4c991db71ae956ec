package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// sample is what a stage did in a measurement.
type sample struct {
	cpu      time.Duration // of all; idle is taken off
	engine   time.Duration // of this, decoding and computing
	messages float64
	batches  float64
	commits  float64
}

// since is what has been done between two readings of the counters.
func since(before, after pipeline.Stats, cpu time.Duration) sample {
	return sample{
		cpu: cpu, engine: after.Decode + after.Engine - before.Decode - before.Engine,
		messages: float64(after.Messages - before.Messages), batches: float64(after.Batches - before.Batches), commits: float64(after.Commits - before.Commits),
	}
}

// costs divides the CPU time of two measurements, whose batches have different sizes. The
// worker's time is Compute a message and Call a batch. The rest is store for a message that is stored,
// as much for one that is given to the worker, and Commit: what is left, for each commit of
// the steady load. So Commit has in it what programs and processor need to wake up.
func costs(many, few sample, store float64) (c serviceTimes) {
	c.Store = linear{Message: store}
	c.Compute, c.Call = solve(many.messages, many.batches, many.worker(), few.messages, few.batches, few.worker())
	c.Commit = max(0, few.cpu.Seconds()-few.worker()-2*store*few.messages) / max(1, few.commits)
	return c
}

// worker is what a shard does. It is measured by the clock: where other programs hold it up, it is
// more than the CPU time, of which it is nine tenths at most.
func (s sample) worker() float64 { return min(s.engine.Seconds(), .9*s.cpu.Seconds()) }

// solve finds x and y of a1 x + b1 y = c1, a2 x + b2 y = c2, neither below 0: the nearest
// that there is.
func solve(a1, b1, c1, a2, b2, c2 float64) (x, y float64) {
	if det := a1*b2 - a2*b1; det != 0 {
		x, y = (c1*b2-c2*b1)/det, (a1*c2-a2*c1)/det
		if x >= 0 && y >= 0 {
			return x, y
		}
		if x < 0 && b1+b2 > 0 {
			return 0, max(0, c1+c2) / (b1 + b2)
		}
	}
	return max(0, c1+c2) / max(1, a1+a2), 0
}

// fieldOf is the number behind a name in a text such as that of /proc/self/io; 0: there is none.
func fieldOf(text, name string) (v float64) {
	if _, after, ok := strings.Cut(text, "\n"+name); ok {
		_, _ = fmt.Sscanf(after, "%f", &v)
	}
	return v
}
