package archive

// Progress is told how far a long call has come: done of total bytes, rows or
// series, and of what. total is 0 where it is unknown. It is called on the
// caller's goroutine, at most once per 64 KiB read, and may be nil.
type Progress func(done, total int64, what string)

// Report calls p unless it is nil.
func (p Progress) Report(done, total int64, what string) {
	if p != nil {
		p(done, total, what)
	}
}
