package ptx

func init() { addForm("shfl.sync.bfly.b32", 5, shuffle) }

// shuffle gives every lane the value of the lane whose number differs in the bits of an
// immediate: of a whole warp, as one group of 32.
func shuffle(p *parser, o []operand) func(w *warp, mask uint32) {
	for i, want := range map[int]uint32{3: 31, 4: all} {
		if o[i].kind != isImmediate || uint32(o[i].value) != want {
			p.fail("shfl of less than a full warp")
		}
	}
	d, a, b := 32*p.outputRegister(o[0], word), 32*p.inputRegister(o[1], word), 32*p.inputRegister(o[2], word)
	return func(w *warp, _ uint32) {
		from := lanes32(w.r[a : a+32])
		for i := range 32 {
			w.r[d+i] = from[(i^int(w.r[b+i]))&31]
		}
	}
}
