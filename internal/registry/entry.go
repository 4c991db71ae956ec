package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// aboutVersion is the version of what is stored beside a model.
const aboutVersion = 1

const (
	mostClasses = 1 << 16
	// MaxNote and MaxCommand are how many bytes these texts of a Lineage may have.
	MaxNote, MaxCommand = 1000, 4000
)

// Lineage is where a model comes from, as far as its file does not say.
type Lineage struct {
	Who     string    `json:"who"`              // published it
	When    time.Time `json:"when"`             // it was published
	Command string    `json:"command,omitzero"` // that made or published it
	Parent  string    `json:"parent,omitzero"`  // fingerprint of the entry that it is made from or is to follow
	Note    string    `json:"note,omitzero"`
}

// Entry is what a registry says about a model.
type Entry struct {
	Fingerprint string             `json:"fingerprint"` // of the readout, see the function; the entry's name
	Network     string             `json:"network"`     // of the model without readouts, and the arithmetic, as in the job's entry
	Readout     string             `json:"readout"`     // its name in the model
	Classes     []string           `json:"classes"`     // of the readout
	Model       string             `json:"model"`       // the file's name, as predictions show it
	SHA256      string             `json:"sha256"`      // of the model's content, as predictions have it
	Training    reservoir.Training `json:"training"`    // what it was trained on, with its leave-one-out figures; without the ranges of inputs
	Lineage
	Size    uint64      `json:"bytes"`
	Retired *Retirement `json:"retired,omitempty"`
	Damage  string      `json:"damaged,omitzero"` // why what is said about the entry cannot be read
}

// Retirement is who retired an entry, and why.
type Retirement struct {
	Who  string    `json:"who"`
	When time.Time `json:"when"`
	Note string    `json:"note,omitzero"`
}

// Usable is why an entry must not begin to predict: it is retired or damaged.
func (e *Entry) Usable() error {
	switch {
	case e.Damage != "":
		return fmt.Errorf("registry: entry %s: %s: %w", e.Fingerprint, e.Damage, ErrDamaged)
	case e.Retired != nil:
		note := ""
		if e.Retired.Note != "" {
			note = " (" + e.Retired.Note + ")"
		}
		return fmt.Errorf("registry: entry %s was retired by %s at %s%s: %w", e.Fingerprint, e.Retired.Who, e.Retired.When.UTC().Format(time.RFC3339), note, ErrRetired)
	}
	return nil
}

// about is an entry as it is stored: without what its object says.
type about struct {
	Version  int                `json:"version"`
	Network  string             `json:"network"`
	Readout  string             `json:"readout"`
	Classes  []string           `json:"classes"`
	Model    string             `json:"model"`
	SHA256   string             `json:"sha256"`
	Training reservoir.Training `json:"training"`
	Lineage
}

var (
	hexName = regexp.MustCompile(fmt.Sprintf("^[0-9a-f]{%d}$", wire.HashDigits))
	hexSum  = regexp.MustCompile("^[0-9a-f]{64}$")
)

// marshal is what is stored beside the model.
func (e *Entry) marshal() (string, error) {
	a := about{aboutVersion, e.Network, e.Readout, e.Classes, e.Model, e.SHA256, e.Training, e.Lineage}
	if err := a.check(); err != nil {
		return "", err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("registry: %w", err)
	}
	return string(text), nil
}

// parseEntry reads what is stored beside the model of that fingerprint.
func parseEntry(fingerprint, text string) (Entry, error) {
	var a about
	if err := decodeOne(text, &a); err != nil {
		return Entry{}, err
	}
	if err := a.check(); err != nil {
		return Entry{}, err
	}
	return Entry{
		Fingerprint: fingerprint, Network: a.Network, Readout: a.Readout, Classes: a.Classes,
		Model: a.Model, SHA256: a.SHA256, Training: a.Training, Lineage: a.Lineage,
	}, nil
}

// decodeOne reads one JSON value and nothing behind it.
func decodeOne(text string, to any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("registry: what is said about it is no JSON of this program's: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("registry: there is more behind the end of what is said about it")
	}
	return nil
}

func (a *about) check() error {
	if a.Version != aboutVersion {
		return fmt.Errorf("registry: it has version %d, and this program reads version %d: use the program that wrote it", a.Version, aboutVersion)
	}
	if !hexName.MatchString(a.Network) || !hexSum.MatchString(a.SHA256) {
		return fmt.Errorf("registry: network %q, sha256 %q: want %d and 64 hexadecimal digits", names.Cut(a.Network, 40), names.Cut(a.SHA256, 70), wire.HashDigits)
	}
	if len(a.Classes) > mostClasses {
		return fmt.Errorf("registry: %d classes, want at most %d", len(a.Classes), mostClasses)
	}
	for _, class := range a.Classes {
		if err := names.Check("class name", class); err != nil {
			return fmt.Errorf("registry: %w", err)
		}
	}
	for _, n := range []struct{ what, name string }{
		{"readout", a.Readout}, {"model", a.Model}, {"data set", a.Training.Dataset}, {"tool", a.Training.Tool}, {"alpha", a.Training.Alpha},
	} {
		if err := names.Check(n.what, n.name); err != nil {
			return fmt.Errorf("registry: %w", err)
		}
	}
	return a.Lineage.check()
}

func (l *Lineage) check() error {
	if err := names.Check("who", l.Who); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if l.Parent != "" && !hexName.MatchString(l.Parent) {
		return fmt.Errorf("registry: parent %q, want a fingerprint of %d hexadecimal digits", names.Cut(l.Parent, 40), wire.HashDigits)
	}
	return errors.Join(text("note", l.Note, MaxNote), text("command", l.Command, MaxCommand))
}

// text refuses what should not be printed.
func text(what, s string, most int) error {
	if len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, names.IsControl) {
		return fmt.Errorf("registry: %s %q: want at most %d bytes of UTF-8 in one line, without control characters", what, names.Cut(s, 40), most)
	}
	return nil
}

// clean makes a name of what a model file says, which may be anything.
func clean(s string) string { return Line(s, names.MaxBytes) }

// Line makes a text of at most so many bytes in one line of what may be anything.
func Line(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if names.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	for len(s) > most {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return s
}
