package models

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// samplesPerRow returns the number of samples per input of the network.
func samplesPerRow(f *reservoir.Front) int {
	if f == nil {
		return 1
	}
	return max(1, f.Decimate)
}

// FrontText describes a model's front end in words, part by part.
func FrontText(r Report) string {
	f, rate := r.Front, r.Training.Rate
	length := func(n int) string {
		if rate == 0 {
			return fmt.Sprintf("%d samples", n)
		}
		return fmt.Sprintf("%d samples (%s s)", n, formatSeconds(float64(n)/rate))
	}
	var parts []string
	if g := f.Regimes; g != nil {
		var settings []string
		for _, c := range g.Settings {
			settings = append(settings, r.Channels[c])
		}
		parts = append(parts, fmt.Sprintf("standardizes channels within %d operating regimes of %s", len(g.Centers), ListText(settings)))
	}
	for _, p := range []struct {
		n    int
		text string
	}{
		{f.Center, "subtracts the running mean of %s"}, {f.Normalize, "subtracts the running mean of %s and divides by the running deviation"},
		{f.Smooth, "takes the running mean of %s"},
		{f.Envelope, "takes the envelope: the running mean of the magnitude of %s"}, {f.Decimate, "makes one sample of the mean of %s"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf(p.text, length(p.n)))
		}
	}
	if len(f.Means) > 0 {
		parts = append(parts, "keeps "+MeansText(f.Means)+" of each channel")
	}
	if f.Segments != nil {
		parts = append(parts, "keeps "+SegmentsText(f.Segments)+" of each channel")
	}
	return strings.Join(parts, "; ")
}

// SegmentsText describes statistics of segments.
func SegmentsText(s *reservoir.Segments) string {
	return fmt.Sprintf("mean and deviation of %d segments of %d samples", s.Count, s.Length)
}

// MeansText describes running means by their lengths.
func MeansText(lengths []int) string {
	text := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(lengths)), ", "), "[]")
	return "running means of " + text + " samples"
}
