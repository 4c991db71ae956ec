package alarm

// SetMaxStreams limits the number of streams of a fold.
func SetMaxStreams(f *Fold, most int) { f.maxStreams = most }
