package edge

import (
	_ "embed" // the module and the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

//go:generate go run ../internal/clang/compile wasm

// module is c/wasm.c, compiled; see package internal/clang.
//
//go:embed eusn.wasm
var module []byte

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Parse(page))

// pageData is the input of the page's script.
type pageData struct {
	Model       string      `json:"model"`
	Channels    []string    `json:"channels"`
	Classes     []string    `json:"classes"`
	Columns     int         `json:"columns"`
	Words       int         `json:"words"`
	Policy      string      `json:"policy"`
	Temperature bool        `json:"temperature"`
	Number      bool        `json:"number"`         // a regression
	Low         float32     `json:"low,omitzero"`   // of its interval
	High        float32     `json:"high,omitzero"`  // of its interval
	Clip        *[2]float32 `json:"clip,omitempty"` // of its value and interval; nil: unlimited
	Abstains    bool        `json:"abstains"`
	Above       float64     `json:"above,omitzero"` // abstains unless the probability is above this
	Module      string      `json:"module"`         // base64
	Weights     string      `json:"weights"`        // base64: the model in the format of c/wasm.c
}

// HTML writes the model as a page that classifies series in a browser, without a server:
// the same arithmetic as in the header, compiled to WebAssembly. Sets of classes are left
// out. HTML refuses the same models as C; o.Name has no effect.
func HTML(w io.Writer, m *reservoir.Model, o Options) (Size, error) {
	x, err := newExport(m, o)
	if err == nil && m.Front != nil {
		err = fmt.Errorf("edge: the model has operating regimes, which are %w in a page, and without them its answers would be wrong: export it as C", ErrPart)
	}
	if err != nil {
		return Size{}, err
	}
	blob, err := x.blob()
	if err != nil {
		return Size{}, err
	}
	h := x.readout
	d := pageData{
		Model: x.fingerprint, Channels: m.Channels, Classes: h.Classes, Columns: h.Columns(), Words: x.layout.Words, Policy: policyText(m.Policy),
		Temperature: h.Temperature > 0, Module: base64.StdEncoding.EncodeToString(module), Weights: base64.StdEncoding.EncodeToString(blob),
	}
	if v := h.Interval; v != nil {
		d.Number, d.Low, d.High, d.Clip = true, v.Low, v.High, v.Clip
	}
	if r := h.Abstain; r != nil {
		d.Abstains, d.Above = true, r.Above
	}
	n := counter{w: w}
	err = pageTemplate.Execute(&n, d)
	return Size{State: 4 * (x.layout.Words + x.workSize()), Constants: len(blob), Text: n.n, Samples: selftestSamples}, err
}

type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}
