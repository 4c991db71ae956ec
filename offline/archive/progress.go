package archive

// Progress receives the progress of a long call: done of total bytes, rows or series, named by what. total is 0 if
// unknown. Progress is called on the caller's goroutine, at most once per 64 KiB read, and may be nil.
type Progress func(done, total int64, what string)

// Report calls p, if not nil.
func (p Progress) Report(done, total int64, what string) {
	if p != nil {
		p(done, total, what)
	}
}
