package figures

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Picture draws Fig. 4.
func (f *Memory) Picture() Picture {
	tasks := f.tasks()
	columns := min(2, len(tasks))
	rows := (len(tasks) + columns - 1) / columns
	width := max(1+3.6*float64(columns), 6.4) // the headline fits in wider fonts as well
	return Picture{vg.Length(width) * vg.Inch, vg.Length(1+3.1*float64(rows)) * vg.Inch, func(c draw.Canvas) {
		c = headline(c, "Fig. 4: long-term memorisation", "Mean accuracy on the test part; bands: one standard deviation over the draws.")
		c = f.drawLegend(c)
		var all []*plot.Plot
		for _, task := range tasks {
			p := newPlot(task, "length T, samples", "accuracy, share of 1")
			p.Y.Min, p.Y.Max = 0, 1
			p.Y.Tick.Marker = ticks(plot.Tick{Value: 0, Label: "0"}, plot.Tick{Value: .25, Label: ".25"}, plot.Tick{Value: .5, Label: ".5"},
				plot.Tick{Value: .75, Label: ".75"}, plot.Tick{Value: 1, Label: "1"})
			for k, model := range f.models() {
				if curve := f.curve(task, model); len(curve) > 0 {
					p.Add(band{curve, k})
				}
			}
			p.X.Padding = 6
			all = append(all, p)
		}
		drawPanels(c, columns, all)
	}}
}

// modelName returns a model's name in the paper.
func modelName(model string) string {
	switch model {
	case "eusn":
		return "EuSN"
	case "esn":
		return "ESN"
	case "resn":
		return "R-ESN"
	}
	return model
}

// band is a curve.
type band struct {
	points []MemoryPoint
	index  int // of color, marker and dashes
}

func (b band) line() draw.LineStyle {
	dashes := [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}}
	return draw.LineStyle{Color: lineColors[b.index%len(lineColors)], Width: 1.6, Dashes: dashes[b.index%len(dashes)]}
}

func (b band) glyph() draw.GlyphStyle {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}}
	return draw.GlyphStyle{Color: lineColors[b.index%len(lineColors)], Radius: 3, Shape: shapes[b.index%len(shapes)]}
}

// DataRange makes the axes hold the whole curve.
func (b band) DataRange() (xmin, xmax, ymin, ymax float64) {
	return float64(b.points[0].Length), float64(b.points[len(b.points)-1].Length), 0, 1
}

func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var line, low, area []vg.Point
	for _, q := range b.points {
		at := x(float64(q.Length))
		l, h := q.band()
		line = append(line, vg.Point{X: at, Y: y(q.Accuracy)})
		area = append(area, vg.Point{X: at, Y: y(min(h, 1))})
		low = append(low, vg.Point{X: at, Y: y(max(l, 0))})
	}
	for i := len(low) - 1; i >= 0; i-- {
		area = append(area, low[i])
	}
	shade := lineColors[b.index%len(lineColors)]
	shade.A = 0x40
	c.FillPolygon(color.Color(shade), area)
	c.StrokeLines(b.line(), line)
	for _, pt := range line {
		c.DrawGlyph(b.glyph(), pt)
	}
}

// drawLegend draws the names of the models in a row, and returns the rest of the page.
func (f *Memory) drawLegend(c draw.Canvas) draw.Canvas {
	const height, sample = 22, 28
	models := f.models()
	step := (c.Max.X - c.Min.X) / vg.Length(max(len(models), 4))
	style := draw.TextStyle{Color: ink, Font: sans(10, false), Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
	for k, model := range models {
		b := band{index: k}
		x, y := c.Min.X+vg.Length(k)*step, c.Max.Y-4
		c.StrokeLine2(b.line(), x, y, x+sample, y)
		c.DrawGlyph(b.glyph(), vg.Point{X: x + sample/2, Y: y})
		c.FillText(style, vg.Point{X: x + sample + 5, Y: y}, modelName(model))
	}
	return draw.Crop(c, 0, 0, 0, -height)
}
