//go:build simulation && chaos && linux

package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/replay"
)

// backfill predicts the whole input into a file, at the end of a history.
type backfill struct {
	*guest
	rng  *rand.Rand
	rate float64 // samples per second

	lines, kills int
}

// addBackfill adds a backfill.
func (h *history) addBackfill(rng *rand.Rand) error {
	if h.scenario.Classes != 0 || h.scenario.countHarms(resizing)+h.scenario.countHarms(trims) > 0 {
		return nil // many lines; input that is gone
	}
	b := &backfill{rng: rng, rate: float64(100 + rng.IntN(900))}
	b.guest = &guest{world: h.world, name: "backfill", fails: h.fail, may: func(error) bool { return true }}
	b.serve = func(l *life) error { return h.predictAgain(l, b) }
	b.lag = time.Duration(1+rng.IntN(100)) * time.Millisecond
	b.disk = watchDisk(b.folder(0))
	b.disk.keeps = true
	h.backfill = b
	return nil
}

func (b *backfill) file(l *life) string { return filepath.Join(l.dir, "backfill.jsonl") }

// predictAgain is a process of the backfill.
func (h *history) predictAgain(l *life, b *backfill) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	did, err := replay.WriteBackfill(l.ctx, h.learnJob(l), replay.Backfill{Out: b.file(l), LeadIn: -1, Rate: b.rate, Line: appendLine})
	l.log.Info("backfill", "predictions", did.Predictions, "err", err)
	b.lines = int(did.Predictions)
	return err
}

// appendLine appends a line for compareLines.
func appendLine(dst []byte, p replay.BackfillPrediction) ([]byte, error) {
	line, err := json.Marshal(map[string]any{
		"stream": p.Stream, "seq": p.Seq, "row": p.Row, "class": p.Labels[p.Class], "flags": p.Flags.String(), "score": p.Score,
		"probability": p.Probability, "scores": p.Scores,
	})
	return append(append(dst, line...), '\n'), err
}

// compareBackfill runs the backfill with kills, and compares its lines with the predictions
// of a job without promotions.
func (h *history) compareBackfill() error {
	b := h.backfill
	for b.start(); ; b.start() {
		l := b.current()
		var dies <-chan time.Time
		if b.kills < 3 {
			dies = time.After(time.Duration(b.rng.IntN(300)) * time.Millisecond)
		}
		select {
		case <-l.done:
			if l.err != nil {
				h.fail("the backfill ended: %v", l.err)
				return nil
			}
			return h.compareLines(b.file(l), h.truth.readouts.first)
		case <-dies:
			b.kills++
			b.kill(b.rng, b.rng.IntN(2) == 0)
		}
	}
}
