package figures

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is a page of plots, for PNG or SVG. The same picture gives the same bytes.
type Picture struct {
	width, height vg.Length
	paint         func(draw.Canvas)
}

// dpi makes a page of 8 inches 1200 pixels wide.
const dpi = 150

// PNG returns the picture as pixels.
func (p Picture) PNG() ([]byte, error) {
	c := vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(dpi))
	p.paint(draw.New(c))
	var b bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
	return b.Bytes(), err
}

// SVG returns the picture as vectors and text. A viewer without Liberation Sans uses its
// own sans-serif font.
func (p Picture) SVG() ([]byte, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(p.width, p.height))
	p.paint(draw.New(c))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), err
}

// Colors of lines, distinct with every kind of color vision (M. Okabe and K. Ito, "Color
// Universal Design", 2008).
var lineColors = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0x56, 0xb4, 0xe9, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x60, 0x60, 0x60, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

var (
	ink   = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	faint = color.NRGBA{0xb8, 0xb8, 0xb8, 0xff}
)

func sans(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = 3 // bold, in the words of golang.org/x/image/font
	}
	return f
}

// newPlot returns an empty panel in this package's style.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font = sans(11, true)
	p.Title.TextStyle.Color = ink
	p.Title.Padding = 4
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(10, false), sans(9, false)
		a.Label.TextStyle.Color, a.Tick.Label.Color = ink, ink
		a.Label.Padding = 3
		a.LineStyle.Color, a.Tick.LineStyle.Color = ink, ink
		a.Padding = 0
	}
	return p
}

// ticks are fixed marks.
func ticks(marks ...plot.Tick) plot.Ticker { return plot.ConstantTicks(marks) }

// headline writes the page's title and a line below, and returns the rest of the page.
func headline(c draw.Canvas, title, below string) draw.Canvas {
	style := draw.TextStyle{Color: ink, Font: sans(13, true), Handler: plot.DefaultTextHandler, YAlign: draw.YTop}
	const margin, second, used = 10, 18, 46
	at := vg.Point{X: c.Min.X + margin, Y: c.Max.Y - margin}
	c.FillText(style, at, title)
	style.Font = sans(10, false)
	at.Y -= second
	c.FillText(style, at, below)
	return draw.Crop(c, margin, -margin, margin, -used-margin/2)
}

// drawPanels draws plots in rows with the given number of columns and aligned axes. The
// last row may be short.
func drawPanels(c draw.Canvas, columns int, all []*plot.Plot) {
	var rows [][]*plot.Plot
	for len(all) > 0 {
		row := make([]*plot.Plot, columns)
		all = all[copy(row, all):]
		rows = append(rows, row)
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: columns, PadX: 14, PadY: 12}
	for i, canvases := range plot.Align(rows, tiles, c) {
		for j, canvas := range canvases {
			if p := rows[i][j]; p != nil {
				p.Draw(canvas)
			}
		}
	}
}
