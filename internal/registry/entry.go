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

// aboutVersion is the version of a model's stored description.
const aboutVersion = 1

const (
	mostClasses = 1 << 16
	// MaxNote and MaxCommand limit these texts of a Lineage, bytes.
	MaxNote, MaxCommand = 1000, 4000
)

// Lineage is the origin of a model, in addition to its file.
type Lineage struct {
	Who     string    `json:"who"`              // the publisher
	When    time.Time `json:"when"`             // time of publication
	Command string    `json:"command,omitzero"` // that made or published it
	Parent  string    `json:"parent,omitzero"`  // fingerprint of the entry that it was made from or follows
	Note    string    `json:"note,omitzero"`
}

// Entry describes a model in a registry.
type Entry struct {
	Fingerprint string             `json:"fingerprint"` // of the readout, see the function; the entry's name
	Network     string             `json:"network"`     // of the model without readouts, and the arithmetic, as in the job's entry
	Readout     string             `json:"readout"`     // its name in the model
	Classes     []string           `json:"classes"`     // of the readout
	Model       string             `json:"model"`       // the file's name, as in predictions
	SHA256      string             `json:"sha256"`      // of the model's content, as in predictions
	Training    reservoir.Training `json:"training"`    // its training part, with its leave-one-out figures; without the ranges of inputs
	Lineage
	Size    uint64      `json:"bytes"`
	Retired *Retirement `json:"retired,omitempty"`
	Damage  string      `json:"damaged,omitzero"` // the reason why the description is unreadable
}

// Retirement is the person who retired an entry, and the reason.
type Retirement struct {
	Who  string    `json:"who"`
	When time.Time `json:"when"`
	Note string    `json:"note,omitzero"`
}

// Usable returns the reason why an entry must not begin to predict: it is retired or
// damaged.
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

// about is the stored form of an entry, without data from its object.
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

// marshalEntry returns the description stored with the model.
func (e *Entry) marshalEntry() (string, error) {
	a := about{aboutVersion, e.Network, e.Readout, e.Classes, e.Model, e.SHA256, e.Training, e.Lineage}
	if err := a.checkAbout(); err != nil {
		return "", err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("registry: %w", err)
	}
	return string(text), nil
}

// parseEntry reads the description of the model with this fingerprint.
func parseEntry(fingerprint, text string) (Entry, error) {
	var a about
	if err := decodeOne(text, &a); err != nil {
		return Entry{}, err
	}
	if err := a.checkAbout(); err != nil {
		return Entry{}, err
	}
	return Entry{
		Fingerprint: fingerprint, Network: a.Network, Readout: a.Readout, Classes: a.Classes,
		Model: a.Model, SHA256: a.SHA256, Training: a.Training, Lineage: a.Lineage,
	}, nil
}

// decodeOne reads a single JSON value without trailing data.
func decodeOne(text string, to any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("registry: its description is not JSON of this program: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("registry: there is more behind the end of what is said about it")
	}
	return nil
}

func (a *about) checkAbout() error {
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
	return a.Lineage.checkLineage()
}

func (l *Lineage) checkLineage() error {
	if err := names.Check("who", l.Who); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if l.Parent != "" && !hexName.MatchString(l.Parent) {
		return fmt.Errorf("registry: parent %q, want a fingerprint of %d hexadecimal digits", names.Cut(l.Parent, 40), wire.HashDigits)
	}
	return errors.Join(checkText("note", l.Note, MaxNote), checkText("command", l.Command, MaxCommand))
}

// checkText refuses unprintable text.
func checkText(what, s string, most int) error {
	if len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, names.IsControl) {
		return fmt.Errorf("registry: %s %q: want at most %d bytes of UTF-8 in one line, without control characters", what, names.Cut(s, 40), most)
	}
	return nil
}

// cleanText makes a name from a model file's arbitrary text.
func cleanText(s string) string { return Line(s, names.MaxBytes) }

// Line shortens any text to one line of at most `most` bytes.
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
