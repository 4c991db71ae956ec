package term

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Progress shows up after this long: a short job leaves no trace.
const progressDelay = 1500 * time.Millisecond

// plainEvery is how often a line appears where there is no terminal.
const plainEvery = 5 * time.Second

// maxPhase is how many characters a line has for what is being done.
const maxPhase = 100

// Progress shows how far a long job is: a bar with the time left on a
// terminal, a line now and then elsewhere, nothing with --quiet. It knows no
// colours, so NO_COLOR is kept by having nothing to switch off.
type Progress struct {
	mu    sync.Mutex
	w     io.Writer
	mode  string // bar, plain, none
	start time.Time
	last  time.Time // of the last plain line
	phase string
	shown string // phase, fit for a terminal
	bar   *progressbar.ProgressBar
}

// NewProgress shows progress on w; mode auto chooses bar on a terminal, plain
// elsewhere.
func NewProgress(w io.Writer, mode string) *Progress {
	return &Progress{w: w, mode: displayMode(w, mode), start: time.Now(), last: time.Now()}
}

func displayMode(w io.Writer, mode string) string {
	switch {
	case mode != "auto":
		return mode
	case isTerminal(w):
		return "bar"
	}
	return "plain"
}

// isTerminal reports whether w can redraw a line.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Report takes one step's news: done of total units of what. It may be called
// from several goroutines.
func (p *Progress) Report(done, total int64, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what != p.phase {
		p.clear()
		p.phase, p.start, p.last = what, time.Now(), time.Now()
		p.shown = string(clean([]byte(names.Cut(what, maxPhase)))) // names of files and data sets are in it
	}
	if p.mode == "none" || time.Since(p.start) < progressDelay {
		return
	}
	if p.mode == "bar" {
		p.draw(done, total)
	} else if time.Since(p.last) >= plainEvery {
		p.last = time.Now()
		fmt.Fprintln(p.w, plainLine(done, total, p.shown, time.Since(p.start)))
	}
}

func (p *Progress) draw(done, total int64) {
	if total <= 0 {
		total = -1 // the bar's word for unknown
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(),
			// Its own forecast would count from the first drawing, not from the start.
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())
	}
	p.bar.Describe(fmt.Sprintf("%s, %s", p.shown, timeLeft(done, total, time.Since(p.start))))
	_ = p.bar.Set64(done) // fails only where it counts past the total: a display, not a result
}

// Close removes the bar, so that what follows starts on an empty line.
func (p *Progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// plainLine is one line of a progress log.
func plainLine(done, total int64, what string, spent time.Duration) string {
	if total <= 0 {
		return fmt.Sprintf("%s: %d, %s", what, done, timeLeft(done, total, spent))
	}
	return fmt.Sprintf("%s: %d of %d (%d %%), %s", what, done, total, 100*done/total, timeLeft(done, total, spent))
}

// A forecast needs a part of the job done, or time for the rate to settle.
const (
	forecastFrom  = 20 // the least part: 1/20
	forecastAfter = 30 * time.Second
)

// timeLeft assumes that the rest goes as fast as what is done, and says no more
// digits than that is worth.
func timeLeft(done, total int64, spent time.Duration) string {
	if total <= 0 || done <= 0 || (done < total/forecastFrom && spent < forecastAfter) {
		return fmt.Sprintf("%v so far", spent.Round(time.Second))
	}
	left := float64(spent) * float64(max(0, total-done)) / float64(done)
	return "about " + coarse(time.Duration(min(left, math.MaxInt64/2))) + " left"
}

// coarse writes a time with about two digits.
func coarse(d time.Duration) string {
	unit := time.Second
	switch {
	case d >= 10*time.Hour:
		unit = time.Hour
	case d >= time.Hour:
		unit = 10 * time.Minute
	case d >= 10*time.Minute:
		unit = time.Minute
	case d >= time.Minute:
		unit = 10 * time.Second
	}
	s := d.Round(unit).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
