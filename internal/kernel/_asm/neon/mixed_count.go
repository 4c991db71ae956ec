package main

import "fmt"

// The signs and counts of kind mixed on NEON; mixed.go has the rest.

// memberBits makes a bit for each of the four members, in all units.
func (f *file) memberBits(v vec) {
	f.op("MOVD", "$0x08040201, %s", mixedT0)
	f.op("LSL", "%s, %s, %s", mixedShift, mixedT0, mixedT0)
	f.op("VDUP", "%s, %s", mixedT0, v.s())
}

// signMove is the load and store of one byte of signs a unit.
func (m mixed) signMove() string {
	if m.recurrent {
		return "FMOVQ"
	}
	return "FMOVD"
}

// expandSigns expands every bit to a byte of ones: four units a register, four
// members each.
func (f *file) expandSigns(m mixed) {
	bits, v, two := vec(16), vec(17), []vec{18, 19}[:m.fours()/2]
	f.memberBits(bits)
	f.op(m.signMove(), "(%s), %s", mixedBits, v.f())
	for i, zip := range []string{"VZIP1", "VZIP2"}[:len(two)] {
		f.op(zip, "%s, %s, %s", v.b(), v.b(), two[i].b())
	}
	for i, t := range two {
		for k, zip := range []string{"VZIP1", "VZIP2"} {
			sign := mixedSigns + vec(2*i+k)
			f.op(zip, "%s, %s, %s", t.h(), t.h(), sign.h())
			f.op("VCMTST", "%s, %s, %s", bits.b(), sign.b(), sign.b())
		}
	}
}

// collapseSigns stores the signs as bits; the bits of the other members stay.
func (f *file) collapseSigns(m mixed) {
	bits, old, mine, signs := vec(16), vec(17), vec(18), mixedTemps[1][:m.fours()]
	f.memberBits(bits)
	for i, s := range signs {
		f.op("VAND", "%s, %s, %s", bits.b(), (mixedSigns + vec(i)).b(), s.b())
	}
	for n := len(signs) / 2; n > 0; n /= 2 { // neighboring bytes together
		for i := range n {
			f.op("VADDP", "%s, %s, %s", signs[2*i+1].b(), signs[2*i].b(), signs[i].b())
		}
	}
	if !m.recurrent {
		f.op("VADDP", "%s, %s, %s", signs[0].b(), signs[0].b(), signs[0].b())
	}
	f.op("MOVD", "$0x0f, %s", mixedT0)
	f.op("LSL", "%s, %s, %s", mixedShift, mixedT0, mixedT0)
	f.op("VDUP", "%s, %s", mixedT0, mine.b())
	f.op(m.signMove(), "(%s), %s", mixedBits, old.f())
	f.op("VBIT", "%s, %s, %s", mine.b(), signs[0].b(), old.b())
	f.op(m.signMove(), "%s, (%s)", old.f(), mixedBits)
}

// clearCounts begins the counts in bytes: in registers of a tap block, in memory
// of a recurrent block, whose arguments take the registers.
func (f *file) clearCounts(m mixed) {
	zero := mixedCount
	for i := range vec(mixedKinds * 2) {
		if v := mixedCount + i; v == zero || !m.recurrent {
			f.op("VEOR", "%s, %s, %s", v.b(), v.b(), v.b())
		}
	}
	for i := 0; i < mixedKinds*4 && m.recurrent; i += 2 {
		f.op("FSTPQ", "%v, %d(%s)", pair{zero, zero}, 16*i, mixedBytes)
	}
}

// count adds 1 to the counts of a kind, of the i-th four units, whose mask is set;
// n is free.
func (f *file) count(m mixed, kind, i int, mask, n vec) {
	if !m.recurrent {
		c := mixedCount + vec(2*kind+i)
		f.op("VSUB", "%s, %s, %s", mask.b(), c.b(), c.b())
		return
	}
	place := fmt.Sprintf("%d(%s)", 16*(4*kind+i), mixedBytes)
	f.op("FMOVQ", "%s, %s", place, n.f())
	f.op("VSUB", "%s, %s, %s", mask.b(), n.b(), n.b())
	f.op("FMOVQ", "%s, %s", n.f(), place)
}

// foldCounts adds the byte counts to the state's. Two units there have the counts
// of eight members each; both halves of the members get a separate register.
func (f *file) foldCounts(m mixed, half vec) {
	f.op("MOVD", "%s, %s", mixedTotals, mixedT0)
	for kind := range mixedKinds {
		for i := range m.fours() {
			bytes := mixedCount + vec(2*kind+i)
			if m.recurrent {
				bytes = mixedCount
				f.op("FMOVQ", "%d(%s), %s", 16*(4*kind+i), mixedBytes, bytes.f())
			}
			f.foldTwo("VUADDW", bytes.b8(), 16, half)
			f.foldTwo("VUADDW2", bytes.b(), 18, half)
		}
		if !m.recurrent {
			f.op("ADD", "$%d, %s", 16*mixedGroup, mixedT0) // past the other group
		}
	}
}

// foldTwo adds the counts of two units.
func (f *file) foldTwo(add, bytes string, first, half vec) {
	units := fmt.Sprintf("[%s, %s]", first.d(), (first + 1).d())
	f.op("VLD2", "(%s), %s", mixedT0, units)
	f.op(add, "%s, %s, %s", bytes, (first + half).h(), (first + half).h())
	f.op("VST2.P", "%s, 32(%s)", units, mixedT0)
}

// temps2 is the k-th free register for each of two units.
func temps2(k int) pair { return pair{mixedTemps[0][k], mixedTemps[1][k]} }

// bytes4 makes one register of bytes, t[0], of four masks of words.
func (f *file) bytes4(t [4]vec) {
	f.op("VUZP1", "%s, %s, %s", t[1].h(), t[0].h(), t[0].h())
	f.op("VUZP1", "%s, %s, %s", t[3].h(), t[2].h(), t[2].h())
	f.op("VUZP1", "%s, %s, %s", t[2].b(), t[0].b(), t[0].b())
}

// signs makes the signs of the i-th four units; for a counted sample, signs
// counts them, and the changes.
func (f *file) signs(m mixed, i int, counted bool) {
	t, sign := mixedTemps[i%2], mixedSigns+vec(i)
	for k, v := range t {
		f.fcmgtZero(v, vec(4*i+k))
	}
	f.bytes4(t)
	if counted {
		f.op("VEOR", "%s, %s, %s", t[0].b(), sign.b(), t[1].b())
		f.count(m, mixedPpv, i, t[0], t[2])
		f.count(m, mixedSc, i, t[1], t[3])
	}
	f.op("VMOV", "%s, %s", t[0].b(), sign.b())
}

// extremes counts the units whose argument is the largest of a group, or the
// smallest.
func (f *file) extremes(m mixed, first, kind int, choose func(f *file, d, n, m vec)) {
	t := mixedTemps[0]
	for i := range t {
		choose(f, t[i], vec(first+2*i), vec(first+2*i+1))
	}
	choose(f, t[0], t[0], t[1])
	choose(f, t[2], t[2], t[3])
	choose(f, mixedBest, t[0], t[2])
	for i := range mixedGroup / 4 {
		t := mixedTemps[1-i]
		for k, v := range t {
			f.fcmeq(v, vec(first+4*i+k), mixedBest)
		}
		f.bytes4(t)
		f.count(m, kind, first/4+i, t[0], t[1])
	}
}
