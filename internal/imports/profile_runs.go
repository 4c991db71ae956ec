package imports

// ProfileRuns grades a channel by its values in several streams. unit is the unit in its name.
func ProfileRuns(name string, runs [][]float32) (p Profile, unit string) {
	for _, run := range runs {
		for i, v := range run {
			p.addValue(v, i > 0)
		}
	}
	p.grade()
	return p, guessUnit(name)
}
