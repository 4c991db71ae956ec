package past

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/explain"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Places, in pixels.
const (
	pictureWidth = 1000
	plotLeft     = 190 // of samples
	plotRight    = 976
	plotTop      = 114
	stripHeight  = 62 // of a channel
	stripGap     = 8
	whenHeight   = 62 // of all channels together
	barHeight    = 18
	mostStrips   = 8
	mostBars     = 8
	mostName     = 22 // characters of a channel's or class's name
	mostBarName  = 30 // characters of a bar's name
)

// Colors distinguishable with color-blindness (Okabe and Ito).
const (
	speaksFor, speaksAgainst = "#0072B2", "#D55E00"
	inkColor, quietColor     = "#0F172A", "#475569"
)

// drawing is an SVG under way.
type drawing struct {
	text    bytes.Buffer
	e       *explain.Explanation
	samples int
}

func (d *drawing) appendText(format string, args ...any) { fmt.Fprintf(&d.text, format+"\n", args...) }

// write puts text at a place; anchor is start, middle or end.
func (d *drawing) write(x, y float64, anchor, color string, size int, text string) {
	d.appendText(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" font-size="%d">%s</text>`, x, y, anchor, color, size, escaped(text))
}

func escaped(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // a buffer accepts all writes; characters invalid in XML become U+FFFD
	return b.String()
}

// xOf is the place of a sample's beginning.
func (d *drawing) xOf(sample int) float64 {
	return plotLeft + float64(plotRight-plotLeft)*float64(sample)/float64(max(1, d.samples))
}

// colorOf returns the color of a share in the difference between two classes' scores.
func colorOf(part float64) string {
	if part < 0 {
		return speaksAgainst
	}
	return speaksFor
}

// picture draws an explanation with a score.
func picture(e *explain.Explanation) []byte {
	d := &drawing{e: e}
	if n := len(e.Held); n > 0 {
		d.samples = len(e.Values) / n
	}
	y := d.body()
	var all bytes.Buffer
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" font-family="Helvetica, Arial, sans-serif">`+"\n", pictureWidth, y)
	fmt.Fprintf(&all, "<title>%s</title>\n", escaped(headline(e)))
	fmt.Fprintf(&all, `<rect width="%d" height="%.0f" fill="#FFFFFF"/>`+"\n", pictureWidth, y)
	all.Write(d.text.Bytes())
	all.WriteString("</svg>\n")
	return all.Bytes()
}

func headline(e *explain.Explanation) string {
	return fmt.Sprintf("%s: why %s, and not %s", names.Cut(e.Prediction.Stream, 34), names.Cut(e.Score.Class, mostName), names.Cut(e.Score.RunnerUp, mostName))
}

// which describes the prediction beyond the headline.
func which(p *explain.Prediction) string {
	text := fmt.Sprintf("seq %d, row %d; integrity %s", p.Seq, p.Row, p.Integrity)
	if p.Flags != "" {
		text += " (" + p.Flags + ")"
	}
	if p.Probability > 0 {
		text = fmt.Sprintf("probability %.3f; %s", p.Probability, text)
	}
	return names.Cut(text, 110)
}

// body draws everything, and returns the height.
func (d *drawing) body() (height float64) {
	e := d.e
	d.appendText(`<text x="16" y="28" font-size="17" font-weight="bold" fill="%s">%s</text>`, inkColor, escaped(headline(e)))
	d.write(16, 48, "start", inkColor, 13, which(&e.Prediction))
	d.write(16, 66, "start", quietColor, 13, fmt.Sprintf("the score of %s is %.4g above that of %s: %+.4g of the features, %+.4g bias",
		names.Cut(e.Score.Class, mostName), e.Score.Score.Difference, names.Cut(e.Score.RunnerUp, mostName), e.Score.Features.Difference, e.Score.Bias.Difference))
	d.appendText(`<rect x="16" y="78" width="14" height="14" fill="%s"/>`, speaksFor)
	d.write(36, 90, "start", inkColor, 13, "speaks for "+names.Cut(e.Score.Class, mostName))
	d.appendText(`<rect x="322" y="78" width="14" height="14" fill="%s"/>`, speaksAgainst)
	d.write(342, 90, "start", inkColor, 13, "speaks for "+names.Cut(e.Score.RunnerUp, mostName))
	if d.samples > 0 && len(e.Stretches) > 0 {
		d.write(plotRight, 90, "end", quietColor, 12, "shades: lost with the channel at its mean there")
	}
	y := float64(plotTop)
	if d.samples > 0 && len(e.Stretches) > 0 {
		y = d.when(y)
	} else {
		d.write(16, y+6, "start", quietColor, 13, names.Cut("When and where: not known, "+cmp.Or(e.HeldWhy, "no stretch was held at the means (--stretches)"), 125))
		y += 30
	}
	y = d.panels(y)
	d.write(16, y+6, "start", quietColor, 12, "Bars: contributions to the difference of the scores, or what it would lose. They show how the readout reads, and are no causes.")
	return y + 24
}

// when draws the samples of the most important channels, and the effect of their
// stretches.
func (d *drawing) when(y float64) float64 {
	e := d.e
	largest := 0.0
	strength := make([]float64, len(e.Held))
	order := make([]int, len(e.Held))
	for c := range order {
		order[c] = c
	}
	for _, s := range e.Stretches {
		for c, v := range s.Channels {
			strength[c] = max(strength[c], math.Abs(v))
			largest = max(largest, math.Abs(v))
		}
	}
	if largest == 0 { // too long for cells
		for c, h := range e.Held {
			strength[c] = math.Abs(h.Change)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(strength[b], strength[a]) })
	shown := order[:min(len(order), mostStrips)]
	slices.Sort(shown)
	for _, c := range shown {
		for _, s := range e.Stretches {
			if len(s.Channels) > 0 && largest > 0 {
				d.cell(s, y, -s.Channels[c], .75*math.Abs(s.Channels[c])/largest)
			}
		}
		d.strip(c, y)
		y += stripHeight + stripGap
	}
	if more := len(order) - len(shown); more > 0 {
		d.write(plotLeft-10, y+8, "end", quietColor, 12, fmt.Sprintf("and %d more channels", more))
		y += 18
	}
	return d.together(y)
}

// cell colors a stretch of a channel.
func (d *drawing) cell(s explain.Stretch, y, part, strength float64) {
	d.appendText(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s" fill-opacity="%.3f"><title>%s</title></rect>`,
		d.xOf(s.From), y, d.xOf(s.To)-d.xOf(s.From), stripHeight, colorOf(part), strength, fmt.Sprintf("%s: %+.4g", stretch(s), part))
}

// strip draws a channel: in each column of pixels from the smallest to the largest
// value.
func (d *drawing) strip(c int, y float64) {
	e, n := d.e, len(d.e.Held)
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for i := range d.samples {
		low, high = min(low, e.Values[i*n+c]), max(high, e.Values[i*n+c])
	}
	place := func(v float32) float64 {
		if high == low {
			return y + stripHeight/2
		}
		return y + 3 + (stripHeight-6)*(1-(float64(v)-float64(low))/(float64(high)-float64(low)))
	}
	var path strings.Builder
	columns := min(d.samples, plotRight-plotLeft)
	for k := range columns {
		from, to := d.samples*k/columns, d.samples*(k+1)/columns
		least, most := e.Values[from*n+c], e.Values[from*n+c]
		for i := from; i < to; i++ {
			least, most = min(least, e.Values[i*n+c]), max(most, e.Values[i*n+c])
		}
		x := (d.xOf(from) + d.xOf(to)) / 2
		if k == 0 {
			fmt.Fprintf(&path, "M%.1f %.1f", x, place(least))
		}
		fmt.Fprintf(&path, "L%.1f %.1f", x, place(least))
		if most > least {
			fmt.Fprintf(&path, "V%.1f", place(most))
		}
	}
	d.appendText(`<rect x="%d" y="%.1f" width="%d" height="%d" fill="none" stroke="#CBD5E1"/>`, plotLeft, y, plotRight-plotLeft, stripHeight)
	d.appendText(`<path d="%s" fill="none" stroke="%s" stroke-width="1.1"/>`, path.String(), inkColor)
	d.write(plotLeft-10, y+stripHeight/2-2, "end", inkColor, 13, names.Cut(e.Held[c].Channel, mostName))
	d.write(plotLeft-10, y+stripHeight/2+14, "end", quietColor, 11, fmt.Sprintf("%.3g to %.3g", low, high))
}

// together draws the effect of each stretch of all channels, and the axis.
func (d *drawing) together(y float64) float64 {
	e := d.e
	largest := 0.0
	for _, s := range e.Stretches {
		largest = max(largest, math.Abs(s.Change))
	}
	zero := y + whenHeight/2
	for _, s := range e.Stretches {
		height := 0.0
		if largest > 0 {
			height = (whenHeight/2 - 2) * math.Abs(s.Change) / largest
		}
		top := zero
		if s.Change <= 0 { // effect in favor of the class: upwards
			top = zero - height
		}
		d.appendText(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s: %+.4g</title></rect>`,
			d.xOf(s.From)+.5, top, max(.5, d.xOf(s.To)-d.xOf(s.From)-1), height, colorOf(-s.Change), stretch(s), -s.Change)
	}
	d.appendText(`<path d="M%d %.1fH%d" stroke="%s" stroke-width="0.8"/>`, plotLeft, zero, plotRight, quietColor)
	d.write(plotLeft-10, zero-4, "end", inkColor, 13, "all channels")
	d.write(plotLeft-10, zero+12, "end", quietColor, 11, fmt.Sprintf("score, up to %.3g", largest))
	y += whenHeight + 16
	const ticks = 5
	for k := range ticks + 1 {
		sample, anchor := d.samples*k/ticks, "middle"
		x := d.xOf(sample)
		switch k {
		case 0:
			anchor = "start"
		case ticks:
			sample, anchor = d.samples-1, "end"
		}
		d.write(x, y, anchor, quietColor, 11, fmt.Sprintf("sample %d", sample))
	}
	y += 18
	if s := e.Samples; s != nil && s.From != nil && s.To != nil {
		d.write(plotLeft, y, "start", quietColor, 11, stamp(*s.From))
		d.write(plotRight, y, "end", quietColor, 11, stamp(*s.To))
		y += 18
	}
	return y + 10
}

// bar is a bar of a panel.
type bar struct {
	name string
	part float64
}

// panels draws the effect of kinds of features, channels and members.
func (d *drawing) panels(y float64) float64 {
	e := d.e
	shares := func(all []explain.Share) (bars []bar) {
		for _, s := range all {
			bars = append(bars, bar{s.What, s.Difference})
		}
		return bars
	}
	var members, held []bar
	for _, m := range e.Score.Members {
		members = append(members, bar{fmt.Sprintf("member %d (%s)", m.Member, strings.Join(m.Channels, ", ")), m.Difference})
	}
	for _, h := range e.Held {
		held = append(held, bar{h.Channel, -h.Change})
	}
	left := max(d.panel(16, y, "What is lost with a channel at its mean", held), d.panel(16, y+panelHeight(held), "Contributions of what members read", shares(e.Score.Channels)))
	right := max(d.panel(516, y, "Contributions of the kinds of features", shares(e.Score.Kinds)), d.panel(516, y+panelHeight(shares(e.Score.Kinds)), "Contributions of members", members))
	return max(left, right)
}

func panelHeight(bars []bar) float64 {
	if len(bars) == 0 {
		return 0
	}
	rows := min(len(bars), mostBars)
	if len(bars) > mostBars {
		rows++
	}
	return 40 + barHeight*float64(rows)
}

// panel draws the largest bars about a zero line.
func (d *drawing) panel(x, y float64, title string, bars []bar) float64 {
	if len(bars) == 0 {
		return y
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(math.Abs(b.part), math.Abs(a.part)) })
	end := y + panelHeight(bars)
	more := len(bars) - mostBars
	bars = bars[:min(len(bars), mostBars)]
	largest := math.Abs(bars[0].part)
	d.appendText(`<text x="%.1f" y="%.1f" font-size="13" font-weight="bold" fill="%s">%s</text>`, x, y+12, inkColor, escaped(title))
	const names0, room, value = 225.0, 170.0, 64.0 // of names, of bars, of numbers
	zero := x + names0 + room/2
	y += 24
	d.appendText(`<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="0.8"/>`, zero, y, y+barHeight*float64(len(bars)), quietColor)
	for _, b := range bars {
		width := 0.0
		if largest > 0 {
			width = room / 2 * math.Abs(b.part) / largest
		}
		from := zero
		if b.part < 0 {
			from = zero - width
		}
		d.appendText(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`, from, y+2, width, barHeight-5, colorOf(b.part))
		d.write(x+names0-8, y+13, "end", inkColor, 12, names.Cut(b.name, mostBarName))
		d.write(x+names0+room+value, y+13, "end", quietColor, 12, fmt.Sprintf("%+.3g", b.part))
		y += barHeight
	}
	if more > 0 {
		d.write(x+names0-8, y+13, "end", quietColor, 12, fmt.Sprintf("and %d more", more))
	}
	return end
}
