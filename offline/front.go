package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Front describes the front end of a model; see reservoir.Front. The zero value is no front end.
type Front struct {
	Center, Normalize, Smooth, Envelope Span
	Decimate                            int // samples; 0: not
}

// Span is a length in samples, or in time, converted with the sampling rate. The zero value is
// no length.
type Span struct {
	Samples int
	Time    time.Duration
}

// UnmarshalText parses "envelope=10ms,decimate=20": parts with their lengths, in
// samples or with a unit of time.
func (f *Front) UnmarshalText(text []byte) (err error) {
	*f = Front{}
	parts := map[string]*Span{"center": &f.Center, "normalize": &f.Normalize, "smooth": &f.Smooth, "envelope": &f.Envelope, "decimate": {}}
	for _, part := range strings.Split(string(text), ",") {
		name, length, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := parts[name]
		switch {
		case to == nil:
			return fmt.Errorf("front end %q: want center, normalize, smooth, envelope or decimate, each with its length, such as envelope=10ms,decimate=20", part)
		case *to != Span{}:
			return fmt.Errorf("front end: %s twice, want it once", name)
		}
		if *to, err = parseSpan(length); err != nil || name == "decimate" && to.Time != 0 {
			return fmt.Errorf("front end %q: want a number of samples from 1%s", part, map[bool]string{true: ", or a time such as 10ms"}[name != "decimate"])
		}
	}
	f.Decimate = parts["decimate"].Samples
	return nil
}

func parseSpan(text string) (Span, error) {
	if n, err := strconv.ParseUint(text, 10, 30); err == nil && n > 0 {
		return Span{Samples: int(n)}, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%v is not positive", d)
	}
	return Span{Time: d}, err
}

// String returns the text for UnmarshalText; empty for none.
func (f Front) String() string {
	var parts []string
	add := func(name string, s Span) {
		switch {
		case s.Time != 0:
			parts = append(parts, name+"="+s.Time.String())
		case s.Samples != 0:
			parts = append(parts, name+"="+strconv.Itoa(s.Samples))
		}
	}
	add("center", f.Center)
	add("normalize", f.Normalize)
	add("smooth", f.Smooth)
	add("envelope", f.Envelope)
	add("decimate", Span{Samples: f.Decimate})
	return strings.Join(parts, ",")
}

// at is the front end of samples at a rate, Hz; 0: not known. Without a part it
// is nil.
func (f Front) at(hertz float64) (*reservoir.Front, error) {
	if f == (Front{}) {
		return nil, nil
	}
	out := &reservoir.Front{Decimate: f.Decimate}
	for _, part := range []struct {
		name string
		span Span
		to   *int
	}{{"center", f.Center, &out.Center}, {"normalize", f.Normalize, &out.Normalize}, {"smooth", f.Smooth, &out.Smooth}, {"envelope", f.Envelope, &out.Envelope}} {
		switch *part.to = part.span.Samples; {
		case part.span.Time == 0:
		case hertz == 0:
			return nil, fmt.Errorf("offline: front end %s: want the sampling rate, of which the data say nothing (--sample-rate), or lengths in samples", f)
		default:
			n := math.Round(part.span.Time.Seconds() * hertz)
			if !(n >= 1 && n <= reservoir.MaxFront) {
				return nil, fmt.Errorf("offline: front end: %s of %v is %.3g samples at %g Hz, want 1 to %d", part.name, part.span.Time, n, hertz, reservoir.MaxFront)
			}
			*part.to = int(n)
		}
	}
	return out, nil
}

// check finds errors before any data are read, at any sampling rate.
func (f Front) check(p reservoir.Policy) error {
	for _, s := range []*Span{&f.Center, &f.Normalize, &f.Smooth, &f.Envelope} {
		if s.Time > 0 {
			*s = Span{Samples: 2}
		}
	}
	front, err := f.at(0)
	if front == nil || err != nil {
		return err
	}
	if d := front.Decimate; p.Early > 0 && p.Early < d {
		err = fmt.Errorf("offline: front end: decimate=%d makes one sample of %d, and the policy predicts after every %d (early): want at least %d between predictions, or decimate less", d, d, p.Early, d)
	}
	return errors.Join(front.CheckParts(p), err)
}

// decimation is the part that determines the number of samples for the network.
func (f Front) decimation() *reservoir.Front {
	if f.Decimate == 0 {
		return nil
	}
	return &reservoir.Front{Decimate: f.Decimate}
}

// frontText is a front end for people.
func frontText(f *reservoir.Front) string {
	if f == nil {
		return "none"
	}
	text := ""
	if f.Regimes != nil {
		text = fmt.Sprintf("%d operating regimes", len(f.Regimes.Centers))
	}
	lengths := Front{Center: Span{Samples: f.Center}, Normalize: Span{Samples: f.Normalize}, Smooth: Span{Samples: f.Smooth}, Envelope: Span{Samples: f.Envelope}, Decimate: f.Decimate}.String()
	return strings.Trim(text+","+lengths, ",")
}

// setFront makes the front end for the now known sampling rate, and computes the constants of the network's input
// transform from the front end's output. For this purpose the material is read once more.
func (t *training) setFront(ctx context.Context) (err error) {
	if t.front, err = t.opt.Front.at(t.report.Sampling.Rate); err == nil {
		err = t.setRegimes(ctx)
	}
	if t.front == nil || err != nil {
		return err
	}
	if err := t.front.CheckParts(t.opt.Policy); err != nil {
		return err
	}
	for _, r := range t.inputs {
		t.front.Fill = append(t.front.Fill, float32(r.Mean))
	}
	for _, e := range t.plan.examples {
		if e.length == 0 {
			return fmt.Errorf("offline: %s: a sequence is shorter than the %d samples that decimate makes one of: leave it out, or decimate less", t.src.what, t.front.Decimate)
		}
	}
	seen := newInputs(len(t.src.channels))
	cuts := newCutter(t.src.sampleSource, track.Rules{Policy: t.opt.Policy, Mean: t.first(), Front: t.front}, true, t.src.channels)
	cuts.rows, cuts.sites = seen.add, t.src.sites
	var done []*cutSequence
	err = t.src.read(ctx, func(p *chunk) (err error) {
		done, err = cuts.cut(done[:0], p)
		return err
	})
	t.net.Norm = seen.statistics.Norm(t.opt.Spec)
	return err
}

// first replaces missing values at a beginning.
func (t *training) first() []float32 {
	if t.front != nil {
		return t.front.Fill
	}
	return t.net.Norm.Mean
}
