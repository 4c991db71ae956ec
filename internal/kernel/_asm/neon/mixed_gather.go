package main

// mixedGather gathers the values of a block's inputs: 4 samples of an input at a
// time by a transposition, the remaining samples one by one.
func (f *file) mixedGather() {
	f.function("mixedGather", "(values, series *float32, at *int32, inputs, n int)", 40,
		"writes by sample, then input, the vector of 8 members' values; at has each one's first, in bytes from series on.")
	const values, series, places, inputs, n, stride, to, from, place = "R0", "R1", "R2", "R4", "R5", "R6", "R7", "R8", "R9"
	f.op("MOVD", "values+0(FP), %s", values)
	f.op("MOVD", "series+8(FP), %s", series)
	f.op("MOVD", "at+16(FP), %s", places)
	f.op("MOVD", "inputs+24(FP), %s", inputs)
	f.op("MOVD", "n+32(FP), %s", n)
	f.op("LSL", "$5, %s, %s", inputs, stride)
	f.label("input")
	f.op("MOVD", "%s, %s", values, to)
	f.op("MOVD", "%s, %s", series, from)
	f.op("MOVD", "%s, %s", n, left)
	f.blocks(4, func() {
		for l := range pairLanes {
			f.op("MOVW", "%d(%s), %s", 4*l, places, place)
			f.op("ADD", "%s, %s", from, place)
			f.op("FMOVQ", "(%s), %s", place, vec(l).f())
		}
		for _, v := range f.turn() {
			f.op("FSTPQ", "%v, (%s)", v, to)
			f.op("ADD", "%s, %s", stride, to)
		}
		f.op("ADD", "$16, %s", from)
	}, nil, func() {
		for l := range pairLanes {
			f.op("MOVW", "%d(%s), %s", 4*l, places, place)
			f.op("MOVWU", "(%s)(%s), %s", from, place, place)
			f.op("MOVW", "%s, %d(%s)", place, 4*l, to)
		}
		f.op("ADD", "%s, %s", stride, to)
		f.op("ADD", "$4, %s", from)
	})
	f.op("ADD", "$%d, %s", pairBytes, places)
	f.op("ADD", "$%d, %s", pairBytes, values)
	f.op("SUBS", "$1, %s", inputs)
	f.op("BNE", "input")
	f.op("RET", "")
}
