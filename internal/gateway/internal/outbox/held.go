package outbox

// Held are parts of device messages whose samples are incomplete. The log does not store
// these messages before Adopt: a kill loses their values, so their repetitions are new.
type Held struct {
	origins []Origin
	seen    []*Seen
}

// Hold remembers an accepted part without a batch. Beyond Window parts, the oldest part
// counts as stored.
func (t *Sessions) Hold(o Origin, h *Held) {
	e := t.Add(o, nil)
	e.held = true
	h.origins, h.seen = append(h.origins, o), append(h.seen, e)
	if len(h.seen) > Window {
		h.seen[0].held = false
		h.origins, h.seen = h.origins[1:], h.seen[1:]
	}
}

// Adopt adds held parts to the batch, which has their samples.
func (b *Batch) Adopt(h *Held) {
	for i, e := range h.seen {
		e.held = false
		if !e.gone {
			e.Batch = b
			b.Origins, b.seen = append(b.Origins, h.origins[i]), append(b.seen, e)
		}
	}
	*h = Held{}
}
