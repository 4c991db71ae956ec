package main

// mixedFeatures emits the features of a block of 8 members: by kind two vectors for
// each of four units, which are turned, since a member's features lie together.
func (f *file) mixedFeatures() {
	f.function("mixedFeatures", "(features *float32, state *uint32, consts *float32, count float32)", 28,
		"writes the features of a block of 8 members, one member's after another.")
	const to, h, sum, square, max, totals, consts, left = "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7"
	const kinds, units, kindBytes, memberBytes = 8, 16, 4 * 16, 8 * 4 * 16
	const count, mean, b = vec(31), vec(28), vec(29)
	f.op("MOVD", "features+0(FP), %s", to)
	f.op("MOVD", "state+8(FP), %s", h)
	f.op("MOVD", "consts+16(FP), %s", consts)
	f.op("FMOVS", "count+24(FP), %s", count.f())
	f.op("VDUP", "V%d.S[0], %s", int(count), count.s())
	for i, c := range []vec{mixedLow, mixedHigh, mixedFactor} {
		f.op("FMOVQ", "%d(%s), %s", 16*i, consts, c.f())
	}
	for _, part := range []struct {
		place int
		reg   string
	}{{mixedSum, sum}, {mixedSquare, square}, {mixedMax, max}, {mixedCounts, totals}} {
		f.op("ADD", "$%d, %s, %s", part.place, h, part.reg)
	}
	f.op("MOVD", "$%d, %s", units/4, left)
	load := func(from string, each func(v vec)) func(i int) {
		return func(i int) {
			v := pair{vec(i), vec(4 + i)}
			f.op("FLDPQ", "%d(%s), %v", mixedUnit*i, from, v)
			for _, v := range v {
				each(v)
			}
		}
	}
	share := func(kind int) func(i int) {
		return func(i int) {
			low, high := vec(i), vec(4+i)
			f.op("FMOVQ", "%d(%s), %s", 16*units*kind+16*i, totals, mean.f())
			f.op("VUXTL", "V%d.H4, %s", int(mean), low.s())
			f.op("VUXTL2", "%s, %s", mean.h(), high.s())
			for _, v := range []vec{low, high} {
				f.ucvtf(v, v)
				f.fdiv(v, v, count)
			}
		}
	}
	f.label("units")
	for k, feature := range [kinds]func(i int){
		load(h, func(vec) {}),
		load(sum, func(v vec) { f.fdiv(v, v, count) }),
		share(mixedPpv),
		load(max, func(v vec) { // the cubic; of the clip the factor is 0
			f.fmax(mean, v, mixedLow)
			f.fmin(mean, mean, mixedHigh)
			f.op("VEOR", "%s, %s, %s", v.b(), v.b(), v.b())
			f.fadd(v, v, mean)
			f.fmulAll(b, mean, mean)
			f.fmulAll(mean, mean, mixedFactor)
			f.op("VFMLA", "%s, %s, %s", b.s(), mean.s(), v.s())
		}),
		func(i int) {
			f.op("FLDPQ", "%d(%s), %v", mixedUnit*i, square, pair{vec(i), vec(4 + i)})
			f.op("FLDPQ", "%d(%s), %v", mixedUnit*i, sum, pair{mean, b})
			for j, mean := range (pair{mean, b}) {
				v := vec(i + 4*j)
				f.fdiv(mean, mean, count)
				f.fdiv(v, v, count)
				f.op("VFMLS", "%s, %s, %s", mean.s(), mean.s(), v.s())
				f.op("VEOR", "%s, %s, %s", mean.b(), mean.b(), mean.b())
				f.fmax(v, v, mean)
				f.fsqrt(v, v)
			}
		},
		share(mixedSc), share(mixedWin), share(mixedLose),
	} {
		for i := range 4 {
			feature(i)
		}
		for member, v := range f.turn() {
			f.op("FMOVQ", "%s, %d(%s)", v[0].f(), memberBytes*member+kindBytes*k, to)
			f.op("FMOVQ", "%s, %d(%s)", v[1].f(), memberBytes*(4+member)+kindBytes*k, to)
		}
	}
	for _, part := range []string{h, sum, square, max} {
		f.op("ADD", "$%d, %s", 4*mixedUnit, part)
	}
	f.op("ADD", "$%d, %s", 4*16, totals)
	f.op("ADD", "$16, %s", to)
	f.op("SUBS", "$1, %s", left)
	f.op("BNE", "units")
	f.op("RET", "")
}
