package main

import "fmt"

// mixed advances a block of 8 members of kind mixed, as docs/mixed-bank.md defines
// it. A register is one unit of four members, so both halves of the members go
// through the samples in turn: the counts of a half stay in bytes until its last
// sample.
type mixed struct {
	recurrent, cubic bool
}

// Places in a block of the state, bytes: 16 units of 8 members.
const (
	mixedUnit   = 32 // of h, sum, square and max; a unit's weights are as far apart
	mixedSum    = 512
	mixedSquare = 1024
	mixedMax    = 1536
	mixedCounts = 2048 // 256 each: ppv, sc, win, lose; a unit's are 16
	mixedGroup  = 8    // units per group for the largest and smallest argument
)

// The counts, in the order of the state.
const (
	mixedPpv = iota
	mixedSc
	mixedWin
	mixedLose
	mixedKinds
)

// General purpose registers of mixed; args is as of the steps.
const (
	mixedWeights = "R1"  // of the first unit: of these four members; of a tap block, of this group
	mixedState   = "R2"  // as mixedWeights
	mixedTotals  = "R3"  // counts of the first unit, of all members
	mixedBits    = "R4"  // the byte of its signs
	mixedShift   = "R5"  // 0 of the first four members, 4 of the others
	mixedGroups  = "R6"  // of a tap block: groups to go
	mixedInputs  = "R7"  // how many
	mixedBytes   = "R8"  // of a recurrent block: counts of these four members
	mixedValue   = "R9"  // next input
	mixedLeft    = "R10" // samples to go
	mixedNumber  = "R11"
	mixedMask    = "R12"
	mixedRow     = "R13" // next weights,
	mixedRow2    = "R14" // and the weights of the second group
	mixedUnitAt  = "R15" // next state
	mixedT0      = "R16"
	mixedOther   = "R19" // bytes from a group's weights to the next group's
)

// Vector registers of mixed: arguments from 0 on; of a tap block, whose arguments
// are eight, counts from 8 on; then signs, and constants.
const (
	mixedCount  = vec(8)
	mixedSigns  = vec(20) // four units each
	mixedLow    = vec(24)
	mixedHigh   = vec(25)
	mixedFactor = vec(26)
	mixedBest   = vec(27)
)

// mixedTemps are free, two fours of registers.
var mixedTemps = [2][4]vec{{16, 17, 18, 19}, {28, 29, 30, 31}}

func (m mixed) name() string {
	name := "mixedTaps"
	if m.recurrent {
		name = "mixedRecurrent"
	}
	if m.cubic {
		return name + "Cubic"
	}
	return name + "Clip"
}

// units returns the number of units with arguments in registers at once: units
// that see each other.
func (m mixed) units() int {
	if m.recurrent {
		return 2 * mixedGroup
	}
	return mixedGroup
}

// fours returns the number of registers of one kind of counts, or of signs.
func (m mixed) fours() int { return m.units() / 4 }

func (f *file) mixed(m mixed) {
	f.function(m.name(), "(a *MixedSteps)", 8, "advances a block of 8 members by a.Count samples.")
	f.op("MOVD", "a+0(FP), %s", args)
	f.op("MOVD", "MixedSteps_Consts(%s), %s", args, mixedT0)
	for i, c := range []vec{mixedLow, mixedHigh, mixedFactor} {
		f.op("FMOVQ", "%d(%s), %s", 16*i, mixedT0, c.f())
	}
	for _, r := range [][2]string{
		{"Weights", mixedWeights}, {"State", mixedState}, {"Bits", mixedBits}, {"Inputs", mixedInputs}, {"Mask", mixedMask}, {"Signs", mixedBytes},
	} {
		f.op("MOVD", "MixedSteps_%s(%s), %s", r[0], args, r[1])
	}
	f.op("ADD", "$%d, %s, %s", mixedCounts, mixedState, mixedTotals)
	own := 1 // the rows of weights after the inputs' rows
	if m.recurrent {
		own = 2 * mixedGroup
	}
	f.op("ADD", "$%d, %s, %s", 1+own, mixedInputs, mixedOther)
	f.op("LSL", "$8, %s, %s", mixedOther, mixedOther)
	if !m.recurrent {
		f.op("MOVD", "$2, %s", mixedGroups)
		f.label("group")
	}
	f.op("MOVD", "ZR, %s", mixedShift)
	f.label("members")
	f.fourMembers(m)
	f.op("CBNZ", "%s, both", mixedShift)
	f.op("MOVD", "$4, %s", mixedShift)
	f.op("ADD", "$16, %s", mixedWeights)
	f.op("ADD", "$16, %s", mixedState)
	f.op("JMP", "members")
	f.label("both")
	if !m.recurrent {
		f.op("ADD", "%s, %s", mixedOther, mixedWeights)
		f.op("SUB", "$16, %s", mixedWeights)
		f.op("ADD", "$%d, %s", mixedUnit*mixedGroup-16, mixedState)
		f.op("ADD", "$%d, %s", 16*mixedGroup, mixedTotals)
		f.op("ADD", "$%d, %s", mixedGroup, mixedBits)
		f.op("SUBS", "$1, %s", mixedGroups)
		f.op("BNE", "group")
	}
	f.op("RET", "")
}

// fourMembers takes all samples into four members.
func (f *file) fourMembers(m mixed) {
	f.expandSigns(m)
	f.clearCounts(m)
	for _, r := range [][2]string{{"Values", mixedValue}, {"Count", mixedLeft}, {"Number", mixedNumber}} {
		f.op("MOVD", "MixedSteps_%s(%s), %s", r[0], args, r[1])
	}
	f.op("ADD", "%s<<2, %s, %s", mixedShift, mixedValue, mixedValue)
	f.label("sample")
	f.arguments(m)
	f.op("TST", "%s, %s", mixedMask, mixedNumber)
	f.op("BNE", "quiet")
	f.take(m, true)
	f.op("JMP", "taken")
	f.label("quiet")
	f.take(m, false)
	f.label("taken")
	f.op("ADD", "$1, %s", mixedNumber)
	f.op("SUBS", "$1, %s", mixedLeft)
	f.op("BNE", "sample")
	f.collapseSigns(m)
	f.op("CBNZ", "%s, foldSecond", mixedShift)
	f.foldCounts(m, 0)
	f.op("JMP", "folded")
	f.label("foldSecond")
	f.foldCounts(m, 1)
	f.label("folded")
}

// arguments computes those of all units in the first registers: bias, inputs or
// taps, then states; of tap members the states follow in take.
func (f *file) arguments(m mixed) {
	f.op("MOVD", "%s, %s", mixedWeights, mixedRow)
	if m.recurrent {
		f.op("ADD", "%s, %s, %s", mixedOther, mixedRow, mixedRow2)
	}
	for i := range m.units() {
		f.op("FMOVQ", "%s, %s", m.weight(i), vec(i).f())
	}
	f.nextRow(m)
	f.op("MOVD", "%s, %s", mixedInputs, mixedT0)
	f.products(m, "inputs", mixedValue)
	if m.recurrent {
		f.op("MOVD", "%s, %s", mixedState, mixedUnitAt)
		f.op("MOVD", "$%d, %s", m.units(), mixedT0)
		f.products(m, "states", mixedUnitAt)
	}
}

// weight is the place of the next weight of unit i.
func (m mixed) weight(i int) string {
	if i < mixedGroup {
		return fmt.Sprintf("%d(%s)", mixedUnit*i, mixedRow)
	}
	return fmt.Sprintf("%d(%s)", mixedUnit*(i-mixedGroup), mixedRow2)
}

func (f *file) nextRow(m mixed) {
	f.op("ADD", "$%d, %s", mixedUnit*mixedGroup, mixedRow)
	if m.recurrent {
		f.op("ADD", "$%d, %s", mixedUnit*mixedGroup, mixedRow2)
	}
}

// products adds mixedT0 values, from the address in at on, times their weights.
// Weights are loaded some products before their own, for processors that take
// instructions in order.
func (f *file) products(m mixed, label, at string) {
	const ahead = 5
	x, free := vec(16), []vec{17, 18, 19, 28, 29, 30, 31}
	f.label(label)
	f.op("FMOVQ.P", "%d(%s), %s", mixedUnit, at, x.f())
	for i := range m.units() + ahead {
		if i < m.units() {
			f.op("FMOVQ", "%s, %s", m.weight(i), free[i%len(free)].f())
		}
		if k := i - ahead; k >= 0 {
			f.op("VFMLA", "%s, %s, %s", x.s(), free[k%len(free)].s(), vec(k).s())
		}
	}
	f.nextRow(m)
	f.op("SUBS", "$1, %s", mixedT0)
	f.op("BNE", "%s", label)
}

// take updates the states with the arguments and, if the sample is counted, sums
// and counts.
func (f *file) take(m mixed, counted bool) {
	for i := 0; i < m.units(); i += 2 {
		f.states(m, i, counted)
	}
	for i := range m.fours() {
		f.signs(m, i, counted)
	}
	for first := 0; first < m.units() && counted; first += mixedGroup {
		f.extremes(m, first, mixedWin, (*file).fmax)
		f.extremes(m, first, mixedLose, (*file).fmin)
	}
}

// states adds the activations of two units, side by side. The limits pass a NaN on
// as the definition does, and are never zero. The largest argument is
// compared, because fmax prefers +0 to -0, and the definition the first to come.
func (f *file) states(m mixed, unit int, counted bool) {
	z := pairAt(vec(unit))
	h, c, a, s := temps2(0), temps2(1), temps2(2), temps2(3)
	each := func(do func(i int)) { do(0); do(1) }
	move := func(op string, v pair, at int) {
		each(func(i int) {
			place := fmt.Sprintf("%d(%s)", at+mixedUnit*(unit+i), mixedState)
			if op == "load" {
				f.op("FMOVQ", "%s, %s", place, v[i].f())
			} else {
				f.op("FMOVQ", "%s, %s", v[i].f(), place)
			}
		})
	}
	move("load", h, 0)
	if !m.recurrent { // each sees itself
		each(func(i int) { f.op("FMOVQ", "%s, %s", m.weight(unit+i), c[i].f()) })
		each(func(i int) { f.op("VFMLA", "%s, %s, %s", h[i].s(), c[i].s(), z[i].s()) })
	}
	if counted {
		move("load", s, mixedSum)
	}
	each(func(i int) { f.fmax(c[i], z[i], mixedLow) })
	each(func(i int) { f.fmin(c[i], c[i], mixedHigh) })
	each(func(i int) { f.fadd(h[i], h[i], c[i]) })
	if m.cubic {
		each(func(i int) { f.fmulAll(a[i], c[i], mixedFactor) })
		each(func(i int) { f.fmulAll(c[i], c[i], c[i]) })
		each(func(i int) { f.op("VFMLA", "%s, %s, %s", c[i].s(), a[i].s(), h[i].s()) })
	}
	if !counted {
		move("store", h, 0)
		return
	}
	move("load", a, mixedSquare)
	move("load", c, mixedMax)
	move("store", h, 0)
	each(func(i int) { f.fadd(s[i], s[i], h[i]) })
	move("store", s, mixedSum)
	each(func(i int) { f.op("VFMLA", "%s, %s, %s", h[i].s(), h[i].s(), a[i].s()) })
	each(func(i int) { f.fcmgt(s[i], z[i], c[i]) })
	each(func(i int) { f.op("VBIT", "%s, %s, %s", s[i].b(), z[i].b(), c[i].b()) })
	move("store", a, mixedSquare)
	move("store", c, mixedMax)
}
