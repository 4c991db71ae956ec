package archive

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// labeled are the samples looked up in a LabelFile.
type labeled struct {
	streams     map[string]bool
	first, last int64 // times
	timed       bool  // the samples have times
}

func (s *labeled) addChunk(c *RecordingChunk) {
	if s.streams == nil {
		s.streams = make(map[string]bool)
	}
	for i, stream := range c.Stream {
		if i == 0 || stream != c.Stream[i-1] {
			s.streams[stream] = true
		}
		t := c.Time[i]
		if t == NoTime {
			continue
		}
		if !s.timed || t < s.first {
			s.first = t
		}
		if !s.timed || t > s.last {
			s.last = t
		}
		s.timed = true
	}
}

// LabelFit counts how the labels of a file fit the samples of a recording.
type LabelFit struct {
	Labels   int    `json:"labels"`
	Fit      int    `json:"fit"`                 // labels that a sample has
	NoStream int    `json:"no_stream,omitempty"` // of the labels that do not fit: of a stream outside the recording
	NoTime   int    `json:"no_time,omitempty"`   // of a time, or a sequence, without a sample
	Reason   string `json:"reason,omitempty"`    // of the first label that does not fit
}

// Fit returns the fit of the labels to the recording read; nil without a file.
func (l *LabelFile) Fit() *LabelFit {
	if l == nil {
		return nil
	}
	f := &LabelFit{}
	miss := func(stream string, lines int, what string) {
		reason := fmt.Sprintf("the recording has no stream %q, it has %s", names.Cut(stream, 40), l.seen.names())
		switch {
		case !l.seen.streams[stream]:
			f.NoStream += lines
		default:
			f.NoTime += lines
			reason = fmt.Sprintf("stream %q has no sample %s; %s", names.Cut(stream, 40), what, l.seen.times())
		}
		if f.Reason == "" {
			f.Reason = reason
		}
	}
	for _, stream := range slices.Sorted(maps.Keys(l.spans)) {
		for _, s := range l.spans[stream] {
			if f.Labels += s.lines; s.used {
				f.Fit += s.lines
			} else {
				miss(stream, s.lines, fmt.Sprintf("from %s to %s", timeText(s.from), timeText(s.to)))
			}
		}
	}
	for at, t := range l.told {
		if f.Labels++; t.input != 0 {
			f.Fit++
		} else {
			miss(at.stream, 1, fmt.Sprintf("with seq %d, row %d", at.message, at.row))
		}
	}
	return f
}

// Text is a fit for people; empty if all labels fit.
func (f *LabelFit) Text() string {
	if f == nil || f.Fit == f.Labels {
		return ""
	}
	return fmt.Sprintf("%d of %d labels fit no sample (%d by their stream, %d by their time or sequence), such as: %s", f.Labels-f.Fit, f.Labels, f.NoStream, f.NoTime, f.Reason)
}

// checkFit refuses a file without a fitting label.
func (l *LabelFile) checkFit(what string) error {
	if f := l.Fit(); f != nil && f.Fit == 0 && f.Labels > 0 {
		return datafile.InContent(fmt.Errorf("offline: %s and %s: no label fits: %s", what, l.path, f.Text()))
	}
	return nil
}

// names are a few of the streams.
func (s *labeled) names() string {
	all := slices.Sorted(maps.Keys(s.streams))
	text := make([]string, 0, 4)
	for _, stream := range all[:min(len(all), 3)] {
		text = append(text, fmt.Sprintf("%q", names.Cut(stream, 40)))
	}
	if len(all) > 3 {
		text = append(text, fmt.Sprintf("... (%d in all)", len(all)))
	}
	return strings.Join(text, ", ")
}

// times describes the times of the samples.
func (s *labeled) times() string {
	if !s.timed {
		return "the samples have no times"
	}
	return fmt.Sprintf("the samples are from %s to %s", timeText(s.first), timeText(s.last))
}

func timeText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
