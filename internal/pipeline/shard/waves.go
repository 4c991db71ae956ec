package shard

import "github.com/eusn-stream/eusn-stream/reservoir"

// waves divides the pending runs into engine calls if features are read: a run that
// continues from a slot with wanted features belongs to a later call. Runs of different
// slots do not depend on each other, so each wave has runs of many slots.
type waves struct {
	of    []int32  // of each run in hand
	most  int32    // the last wave
	marks []marked // by slot
	call  uint32   // marks with this number are valid
	runs  []reservoir.Run
	emits []emit
}

// marked counts how often features of a slot are read after the pending runs.
type marked struct {
	call  uint32
	reads int32
}

// addRow takes the next of the runs in hand, of a slot.
func (w *waves) addRow(slot int32) {
	wave := int32(0)
	if int(slot) < len(w.marks) && w.marks[slot].call == w.call {
		wave = w.marks[slot].reads
	}
	w.of, w.most = append(w.of, wave), max(w.most, wave)
}

// readRow records that the features after the last run of a slot are read.
func (w *waves) readRow(slot int32) {
	if w.call == 0 { // no mark has this number
		w.call = 1
	}
	if n := int(slot) + 1; n > len(w.marks) {
		w.marks = append(w.marks, make([]marked, n-len(w.marks))...)
	}
	if m := &w.marks[slot]; m.call != w.call {
		*m = marked{w.call, 1}
	} else {
		m.reads++
	}
}

// takeWave is wave k of the runs in hand, and where their predictions go.
func (w *waves) takeWave(k int32, runs []reservoir.Run, emits []emit) ([]reservoir.Run, []emit) {
	if w.most == 0 {
		return runs, emits
	}
	w.runs, w.emits = w.runs[:0], w.emits[:0]
	for i := range runs {
		in := w.of[i] == k
		if in {
			w.runs = append(w.runs, runs[i])
		}
		if runs[i].Emit {
			if in {
				w.emits = append(w.emits, emits[0])
			}
			emits = emits[1:]
		}
	}
	return w.runs, w.emits
}

// finishWaves forgets the runs in hand.
func (w *waves) finishWaves() {
	w.of, w.most = w.of[:0], 0
	if w.call++; w.call == 0 { // the numbers of marks wrap around
		clear(w.marks)
	}
}
