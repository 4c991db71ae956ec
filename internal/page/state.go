package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	slowest   = 10
	mostWhys  = 10
	longText  = 300              // shown bytes of an error
	behindFor = 10 * time.Second // a smaller delay is up to date: a batch, a commit, a pause of the server
)

// State is the page's data at one time.
type State struct {
	Now     int64   `json:"now"` // ms since 1970
	Verdict Verdict `json:"verdict"`
	Plant   Plant   `json:"plant"` // all machines of the job

	About
	Point  Point  `json:"point"`            // the last second
	Minute *Point `json:"minute,omitempty"` // the minute that ended with this second
	Totals Totals `json:"totals"`           // since the start of this process

	Shards     []Shard     `json:"shards"`
	Partitions []Partition `json:"partitions"` // of this worker
	Slowest    []int       `json:"slowest"`    // partitions with the largest delay, at most ten, largest first

	Classes Mix      `json:"classes"`
	Flags   Mix      `json:"flags"`
	Trust   Mix      `json:"integrity"`
	Shadows []Shadow `json:"shadows"`
	// Report is the status of the job with all workers; null while there are no answers.
	Report    *fleet.Report `json:"report"`
	ReportWhy string        `json:"report_why,omitempty"` // reason for a missing report
	Marks     []Mark        `json:"marks"`                // oldest first

	Seconds *Series `json:"seconds,omitempty"` // history, in "hello" and /page/state
	Minutes *Series `json:"minutes,omitempty"`
}

// About identifies the worker and its model.
type About struct {
	Job        string   `json:"job"`
	Worker     string   `json:"worker"`
	Version    string   `json:"version"`
	Model      string   `json:"model"` // fingerprint
	Arithmetic string   `json:"arithmetic"`
	Engines    []string `json:"engines"`
}

// Verdict is the status of the worker.
type Verdict struct {
	Level string   `json:"level"` // good, attention or bad
	Text  string   `json:"text"`  // one sentence
	Why   []string `json:"why"`   // problems, one per line, at most ten
}

// Totals are counts since the start of the process, and present numbers.
type Totals struct {
	Messages    uint64 `json:"messages"`
	Rows        uint64 `json:"rows"`
	Predictions uint64 `json:"predictions"`
	DeadLetters uint64 `json:"dead_letters"`
	Duplicates  uint64 `json:"duplicates"`
	Gaps        uint64 `json:"gaps"`
	Losses      uint64 `json:"losses"`
	Streams     int64  `json:"streams"` // in memory now
	Room        int64  `json:"streams_capacity"`
}

// Shard has the time shares of a shard in the last seconds.
type Shard struct {
	Engine  string  `json:"engine"`
	Busy    float64 `json:"busy"` // shares with sum 1
	Waiting float64 `json:"waiting"`
	Idle    float64 `json:"idle"`
}

// Partition is the status of a partition.
type Partition struct {
	ID      int     `json:"p"`
	Phase   string  `json:"phase"`
	Epoch   uint64  `json:"epoch"`
	Lag     int64   `json:"lag"`   // messages
	LagTime Age     `json:"lag_s"` // s
	Unsaved float64 `json:"unsaved_s"`
	Why     string  `json:"why,omitempty"`
}

// Shadow compares a shadow readout with the answering readout.
type Shadow struct {
	Readout     string `json:"readout"`
	Predictions uint64 `json:"predictions"`
	Missed      uint64 `json:"missed"`
	Agreeing    uint64 `json:"agreeing"`
}

// newPartitions returns a worker's partitions, and the numbers of the slowest.
func newPartitions(s *pipeline.Status, now time.Time) (all []Partition, worst []int) {
	all, worst = []Partition{}, []int{}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		v := Partition{ID: p.Partition, Phase: string(p.Phase), Epoch: p.Epoch, Lag: p.Lag, LagTime: lagAge(p.LagTime)}
		if !p.Unsaved.IsZero() {
			v.Unsaved = toSeconds(max(0, now.Sub(p.Unsaved)))
		}
		if p.Err != nil {
			v.Why = shorten(errtext.For(p.Err))
		} else if p.Waiting != "" {
			v.Why = shorten(p.Waiting)
		}
		all = append(all, v)
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(all[b].LagTime, all[a].LagTime), cmp.Compare(all[b].Lag, all[a].Lag))
	})
	for _, i := range order[:min(slowest, len(order))] {
		worst = append(worst, all[i].ID)
	}
	return all, worst
}

// lagAge converts a delay to seconds, in milliseconds.
func lagAge(d time.Duration) Age {
	if d == pipeline.UnknownLag {
		return -1
	}
	return Age(toSeconds(d))
}

// countReading returns the number of read partitions; stuck means that another partition needs
// help.
func countReading(all []pipeline.PartitionHealth) (reading int, stuck bool) {
	for _, p := range all {
		if p.Phase == pipeline.Reading && p.Waiting == "" {
			reading++
		}
		if p.Phase == pipeline.Stopped || p.Phase == pipeline.Deferred || p.Waiting != "" {
			stuck = true
		}
	}
	return reading, stuck
}

// shortenReasons returns the first reasons, each as one shortened line.
func shortenReasons(why []string) []string {
	all := make([]string, 0, len(why))
	for _, line := range why[:min(len(why), mostWhys)] {
		all = append(all, shorten(line))
	}
	if more := len(why) - mostWhys; more > 0 {
		all = append(all, fmt.Sprintf("and %d more: /readyz has all", more))
	}
	return all
}

// newVerdict returns the status of a worker; answered is the time of the last answered sample.
func newVerdict(s *pipeline.Status, lag int64, answered time.Time, behind time.Duration, now time.Time) Verdict {
	why := s.Unready()
	v := Verdict{Level: "good", Why: shortenReasons(why)}
	n := plural(len(s.Partitions), "partition")
	reading, stuck := countReading(s.Partitions)
	if stuck {
		v.Level = "bad"
	}
	switch {
	case !s.Running:
		v.Level, v.Text = "attention", "The stage is starting, or has ended"
	case s.Stopping:
		v.Level, v.Text = "attention", "The stage is stopping"
	case !s.Connected:
		v.Level, v.Text = "bad", "The NATS server cannot be reached: nothing is answered"
	case v.Level == "bad":
		v.Text = fmt.Sprintf("%d of %s work, the others do not", reading, n)
	case len(why) > 0 && reading == len(s.Partitions):
		v.Level, v.Text = "attention", n+" are read, but this worker is not ready"
	case len(why) > 0:
		v.Level, v.Text = "attention", fmt.Sprintf("%d of %s are read, the others get ready", reading, n)
	case behind > behindFor:
		v.Level, v.Text = "attention", fmt.Sprintf("%s, %s behind: %s wait", n, formatAge(behind), plural(int(lag), "message"))
	case behind == pipeline.UnknownLag && len(s.Partitions) > 0:
		v.Level, v.Text = "attention", n+", the lag is unknown: the NATS server has not reported the oldest waiting message"
	case len(s.Partitions) == 0:
		v.Text = "No partitions: other workers have them all"
	case answered.IsZero():
		v.Text = n + ", up to date: no sample has arrived yet"
	default:
		v.Text = fmt.Sprintf("%s, up to date: last sample answered %s ago", n, formatAge(max(0, now.Sub(answered))))
	}
	return v
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return formatThousands(n) + " " + noun
}

// formatThousands formats a number with commas.
func formatThousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// formatAge formats a time for people.
func formatAge(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func toSeconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// shorten returns a text as one line of limited length.
func shorten(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD")
	if len(s) > longText {
		s = strings.ToValidUTF8(s[:longText], "") + " ..."
	}
	return s
}
