package alarmtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// RandomMessages returns a random past as messages of a job's output. A message without
// predictions is a tick of the clock.
func RandomMessages(rng *rand.Rand, streams, messages int) []alarm.Message {
	labels := []string{"ok", "imbalance", "rub"}
	outs := map[int]uint64{}
	var all []alarm.Message
	now := time.Date(2026, 1, 31, 20, 0, 0, 0, time.UTC)
	seq := uint64(0)
	bad := map[int]bool{}
	for range messages {
		seq += 1 + rng.Uint64N(3) // the skipped numbers are records without predictions, or deleted messages
		now = now.Add(time.Duration(rng.Int64N(int64(4 * time.Minute))))
		m := alarm.Message{Seq: seq, Stored: now, Partition: rng.IntN(3), Labels: labels}
		for range rng.IntN(6) {
			s := 3*rng.IntN((streams+2)/3) + m.Partition // all messages of a stream are in one partition
			if rng.IntN(12) == 0 {
				bad[s] = !bad[s]
			}
			p := codec.Prediction{Stream: fmt.Sprintf("%c.%d", 'A'+s%3, s), Seq: seq, Time: codec.NoTime, Answer: outcome.Answer{Probability: .3 + .7*rng.Float32()}}
			if rng.IntN(8) == 0 {
				p.Stream = fmt.Sprint("x", s)
			}
			if bad[s] {
				p.Class = 1 + int32(rng.IntN(2))
			}
			if rng.IntN(10) == 0 {
				p.Class = int32(rng.IntN(3))
			}
			if rng.IntN(9) == 0 {
				p.Probability = 0
			}
			if rng.IntN(7) > 0 {
				p.NoveltyP = []float32{.001, .01, .5, 1}[rng.IntN(4)]
				p.Novelty = float32(rng.IntN(5))
			}
			if rng.IntN(7) > 0 {
				x := float32(rng.IntN(20))
				p.Number = outcome.Number{Value: x, Low: x - 1, High: x + 2, Known: true}
			}
			p.Flags = outcome.Flag(1<<rng.IntN(12)) & (outcome.FlagGap | outcome.FlagFlat | outcome.FlagEarly)
			m.Predictions = append(m.Predictions, p)
		}
		outs[m.Partition] += uint64(len(m.Predictions))
		m.Outs = outs[m.Partition]
		all = append(all, m)
	}
	return all
}

// RandomRules returns random rules.
func RandomRules(rng *rand.Rand) (all []Rule) {
	for i := range 1 + rng.IntN(5) {
		w := Rule{Name: fmt.Sprint("rule-", i), N: 1 + rng.IntN(6), ClearAfter: 1 + rng.IntN(4)}
		w.K = 1 + rng.IntN(w.N)
		switch rng.IntN(5) {
		case 0:
			w.Silent = time.Duration(1+rng.IntN(20)) * time.Minute
		case 1:
			if w.Flag = []outcome.Flag{outcome.FlagGap, outcome.FlagFlat}[rng.IntN(2)]; rng.IntN(2) == 0 {
				w.Novel, w.Flag = .01, 0
			}
		case 2:
			w.Op, w.Bound = []string{">", ">=", "<", "<="}[rng.IntN(4)], float32(5+rng.IntN(10))
			if w.Off = w.Bound; rng.IntN(2) == 0 {
				w.Off += 4
				if w.Op[0] == '>' {
					w.Off -= 8
				}
			}
		default:
			w.Classes = [][]string{{"imbalance"}, {"imbalance", "rub"}}[rng.IntN(2)]
			if rng.IntN(2) == 0 {
				w.At = .6
				if rng.IntN(2) == 0 {
					w.Below = .4
				}
			}
		}
		if rng.IntN(3) == 0 {
			w.Hold = time.Duration(rng.IntN(20)+1) * time.Minute
		}
		if rng.IntN(3) == 0 {
			w.Quiet = []string{"22:00-06:00", "20:10-21:00"}[rng.IntN(2)]
		}
		if rng.IntN(3) == 0 {
			w.Prefix = "A"
		}
		w.Group = rng.IntN(4) == 0
		w.Final = w.Silent == 0 && rng.IntN(4) == 0
		all = append(all, w)
	}
	return all
}
