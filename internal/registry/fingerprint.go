package registry

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Fingerprint names a readout of a model: 32 hexadecimal digits of the SHA-256 of the
// model with only this readout and, of its training, the data behind the flags of
// predictions. So a change of classes, weights, limits or temperature changes the
// fingerprint, and so does another network or a change of the training ranges. Further
// readouts of the model, and the training part, do not matter.
func Fingerprint(m *reservoir.Model, linear *readout.Linear) (string, error) {
	alone := *m
	alone.Readouts = []*readout.Linear{linear}
	alone.Training = reservoir.Training{MinLength: m.Training.MinLength, MaxLength: m.Training.MaxLength, Inputs: m.Training.Inputs, Rate: m.Training.Rate, LongestInterval: m.Training.LongestInterval}
	print, err := alone.Fingerprint()
	if err != nil {
		return "", fmt.Errorf("registry: %w", err)
	}
	return print[:wire.HashDigits], nil
}

// Identity represents a readout in a job's entry, in records and in workers' names: its
// fingerprint, and the input format. input is written as by package internal/formats.
// For Arrow it is empty, and the identity is the fingerprint.
func Identity(fingerprint, input string) string {
	if input == "" {
		return fingerprint
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(fingerprint+" "+input)))[:wire.HashDigits]
}

// networkOf returns the identity of a model without its readouts, in an arithmetic.
func networkOf(m *reservoir.Model, arithmetic string) (string, error) {
	sh, err := state.ShapeOf(m, arithmetic)
	return sh.Identity().Network, err
}

// SameNetwork reports whether two models share their states, in any arithmetic.
func SameNetwork(a, b *reservoir.Model) (bool, error) {
	one, err := networkOf(a, "")
	if err != nil {
		return false, err
	}
	other, err := networkOf(b, "")
	return one == other, err
}

// describeDifferences names the differences that keep model a from continuing with the
// states of model b.
func describeDifferences(a, b *reservoir.Model) string {
	var all []string
	add := func(what string, same bool, ours, theirs any) {
		if !same {
			all = append(all, fmt.Sprintf("%s (%v, the job's %v)", what, ours, theirs))
		}
	}
	s, o := a.Network.Spec, b.Network.Spec
	add("kind", s.Kind == o.Kind, s.Kind, o.Kind)
	add("members x units", s.Members == o.Members && s.Units == o.Units, fmt.Sprintf("%d x %d", s.Members, s.Units), fmt.Sprintf("%d x %d", o.Members, o.Units))
	add("seed", s.Seed == o.Seed, s.Seed, o.Seed)
	add("channels", slices.Equal(a.Channels, b.Channels), a.Channels, b.Channels)
	add("policy", a.Policy == b.Policy, a.Policy, b.Policy)
	front := func(f *reservoir.Front) string {
		if f == nil {
			return "none"
		}
		text, _ := json.Marshal(f) // of numbers, no error is possible
		return string(text)
	}
	add("front end", front(a.Front) == front(b.Front), front(a.Front), front(b.Front))
	if len(all) == 0 {
		return "weights, features, or the scaling of the input, which comes from the training data"
	}
	return strings.Join(all, ", ")
}
