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

// Progress appears after this time: a short job prints nothing.
const progressDelay = 1500 * time.Millisecond

// plainEvery is the interval of lines without a terminal.
const plainEvery = 5 * time.Second

// maxPhase is the maximum length of a phase's name in characters.
const maxPhase = 100

// Progress shows the progress of a long job: a bar with the remaining time on a terminal,
// otherwise lines at intervals, nothing with --quiet. It uses no colors, so NO_COLOR needs no
// switch.
type Progress struct {
	mu    sync.Mutex
	w     io.Writer
	mode  string // bar, plain or none
	start time.Time
	last  time.Time // of the newest plain line
	phase string
	shown string // phase, cleaned for a terminal
	bar   *progressbar.ProgressBar
}

// NewProgress shows progress on w; mode auto selects bar on a terminal, plain otherwise.
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

// Report reports that done of total units of a phase are complete. It is safe for concurrent
// use.
func (p *Progress) Report(done, total int64, phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		p.clear()
		p.phase, p.start, p.last = phase, time.Now(), time.Now()
		p.shown = string(clean([]byte(names.Cut(phase, maxPhase)))) // contains names of files and data sets
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
		total = -1 // means unknown to the bar
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(),
			// The bar's own forecast would count from the first drawing, not from the start.
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())
	}
	p.bar.Describe(fmt.Sprintf("%s, %s", p.shown, timeLeft(done, total, time.Since(p.start))))
	_ = p.bar.Set64(done) // fails only for a count above the total, which affects only the display
}

// Close removes the bar, so that the next output starts on an empty line.
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

// plainLine formats one line of a progress log.
func plainLine(done, total int64, phase string, spent time.Duration) string {
	if total <= 0 {
		return fmt.Sprintf("%s: %d, %s", phase, done, timeLeft(done, total, spent))
	}
	return fmt.Sprintf("%s: %d of %d (%d %%), %s", phase, done, total, 100*done/total, timeLeft(done, total, spent))
}

// A forecast requires a part of the job, or time until the rate is stable.
const (
	forecastFrom  = 20 // minimum part: 1/20
	forecastAfter = 30 * time.Second
)

// timeLeft extrapolates the current rate, with as many digits as are reliable.
func timeLeft(done, total int64, spent time.Duration) string {
	if total <= 0 || done <= 0 || (done < total/forecastFrom && spent < forecastAfter) {
		return fmt.Sprintf("%v so far", spent.Round(time.Second))
	}
	seconds := float64(spent) * float64(max(0, total-done)) / float64(done)
	return "about " + coarse(time.Duration(min(seconds, math.MaxInt64/2))) + " left"
}

// coarse formats a time with about two digits.
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
