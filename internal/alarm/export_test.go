package alarm

// SetMost bounds how many streams a fold remembers.
func SetMost(f *Fold, most int) { f.most = most }
