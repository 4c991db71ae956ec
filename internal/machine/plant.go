package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// plantRows is the largest lead in samples of a machine of a plant over another, as with
// producers of messages.
const plantRows = 256

// SimulatePlant writes a recording of continuously running machines, as in a plant: each
// is a continuous stream whose condition changes from interval to interval, labeled,
// without end marks. The intervals are the series of one part of Simulate with the same
// options, each half to one and a half times as long as o.Samples, distributed over the
// machines; a machine's conditions alternate. The times follow o.Rate.
func SimulatePlant(ctx context.Context, path string, part archive.Split, machines int, o Options, progress archive.Progress) (err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	intervals := o.Train
	if part == archive.Test {
		intervals = o.Test
	}
	if machines < 1 || machines > intervals {
		return fmt.Errorf("offline: simulation: %d machines with %d intervals, want at least one of each, and one for each", machines, intervals)
	}
	w, err := archive.WriteRecording(path, archive.RecordingInfo{
		Name: "plant-" + string(part), Channels: machineChannels,
		Source: archive.Provenance{Format: "simulation", Note: fmt.Sprintf("simulated plant of %d machines, bearing 6205: seed %d, %d intervals of about %d samples at %g Hz, noise %g m/s^2",
			machines, o.Seed, intervals, o.Samples, o.Rate, o.Noise)},
	})
	if err != nil {
		return err
	}
	all := make([]plantMachine, machines)
	for done := 0; done < intervals; {
		if err := ctx.Err(); err != nil {
			w.Abort()
			return err
		}
		for m := range all {
			i := plantInterval(m, all[m].next, machines)
			if len(all[m].values) == 0 && i < intervals {
				one := o
				one.Samples = o.Samples/2 + newDraw(o.Seed+1, part, i).below(o.Samples+1)
				all[m].values, all[m].class = machineSeries(one, part, i), machineClasses[i%4]
				all[m].next++
			}
			ended, err := all[m].writeSamples(w, m, o.Rate)
			if err != nil {
				w.Abort()
				return err
			}
			if ended {
				done++
			}
		}
		progress.Report(int64(done), int64(intervals), "intervals simulated")
	}
	return w.Close()
}

// plantInterval returns the n-th interval of machine m. Conditions go by the number
// modulo 4, so for an even number of machines they are shifted each time.
func plantInterval(m, n, machines int) int {
	if machines%2 == 0 {
		m = (m + n) % machines
	}
	return n*machines + m
}

// plantMachine is the progress of a machine.
type plantMachine struct {
	next   int       // next interval
	values []float32 // unwritten values of the current interval
	class  string
	seq    int64
}

// writeSamples writes the machine's next samples and reports whether its interval ends.
func (p *plantMachine) writeSamples(w *archive.RecordingWriter, number int, rate float64) (ended bool, err error) {
	if len(p.values) == 0 {
		return false, nil
	}
	k := len(machineChannels)
	rows := min(plantRows, len(p.values)/k)
	var c archive.RecordingChunk
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for range rows {
		p.seq++
		c.Stream, c.Seq = append(c.Stream, fmt.Sprintf("machine-%02d", number)), append(c.Seq, p.seq)
		c.Time = append(c.Time, start+int64(float64(p.seq-1)/rate*float64(time.Second)))
		c.End, c.Label = append(c.End, false), append(c.Label, p.class)
	}
	c.Values = p.values[:rows*k]
	p.values = p.values[rows*k:]
	return len(p.values) == 0, w.Write(&c)
}
