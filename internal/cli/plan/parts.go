package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// sample is the work of a stage in a measurement.
type sample struct {
	cpu      time.Duration // total, without the idle cost
	engine   time.Duration // part for decoding and computing
	messages float64
	batches  float64
	commits  float64
}

// since returns the work between two readings of the counters.
func since(before, after pipeline.Stats, cpu time.Duration) sample {
	return sample{
		cpu: cpu, engine: after.Decode + after.Engine - before.Decode - before.Engine,
		messages: float64(after.Messages - before.Messages), batches: float64(after.Batches - before.Batches), commits: float64(after.Commits - before.Commits),
	}
}

// divideCosts divides the CPU time of two measurements with different batch sizes. The worker's
// time is Compute per message and Call per batch. The rest is store per stored message, the
// same per message delivered to the worker, and Commit: the remainder, per commit of the steady
// load. So Commit includes the wake-up cost of programs and processor.
func divideCosts(many, few sample, store float64) (c serviceTimes) {
	c.Store = linear{Message: store}
	c.Compute, c.Call = solve(many.messages, many.batches, many.workerTime(), few.messages, few.batches, few.workerTime())
	c.Commit = max(0, few.cpu.Seconds()-few.workerTime()-2*store*few.messages) / max(1, few.commits)
	return c
}

// workerTime returns the time of a shard by the clock: other programs may inflate it above the
// CPU time, so it is limited to nine tenths of the CPU time.
func (s sample) workerTime() float64 { return min(s.engine.Seconds(), .9*s.cpu.Seconds()) }

// solve finds x and y of a1 x + b1 y = c1, a2 x + b2 y = c2 with x, y >= 0: the nearest
// solution.
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

// fieldOf returns the number after a name in a text such as /proc/self/io; 0 if absent.
func fieldOf(text, name string) (v float64) {
	if _, after, ok := strings.Cut(text, "\n"+name); ok {
		_, _ = fmt.Sscanf(after, "%f", &v)
	}
	return v
}
