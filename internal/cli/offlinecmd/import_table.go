package offlinecmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// tableFlags describe the tables of a recording.
type tableFlags struct {
	table          imports.Table
	names, classes string
	read, write    string   // mapping files
	own            []string // names of the flags
}

func (t *tableFlags) addFlags(f *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&t.read, "mapping", "", "YAML file with the use of each column, as --write-mapping writes it; flags override the file")
	own.StringVar(&t.write, "write-mapping", "", "write the use of each column to this file")
	own.StringVar(&t.table.Delimiter, "delimiter", "", "between columns: , ; | tab or blank (default: as the first lines show)")
	own.StringVar(&t.table.Decimal, "decimal", "", "decimal sign of numbers: . or , (default: as the first lines show)")
	own.StringVar(&t.table.Header, "header", "", "yes or no: the first line has the names of the columns (default: as the line shows)")
	own.StringVar(&t.names, "columns", "", "names of the columns, such as unit,cycle,s1..s21 (default: the header, or c1, c2, ...)")
	own.StringVar(&t.table.Files, "files", "", "streams: each file is a stream; sensors: each file is a sensor of one stream (default streams)")
	own.StringVar(&t.table.Rows, "rows", "", "samples: a row is a sample; runs: a row is a run, and each file is a sensor (default samples)")
	own.BoolVar(&t.table.Transpose, "transpose", false, "a line of the file is a column")
	own.StringVar(&t.table.TimeUnit, "time-unit", "", "unit of times that are numbers: s, ms, us or ns (default: as the first time shows)")
	own.StringVar(&t.table.Dates, "dates", "", "order of dates such as 03/04/2026: day-first or month-first (default: as a number above 12 in the first time shows)")
	own.StringVar(&t.table.Zone, "zone", "", "zone of times without an offset: such as Europe/Berlin or +02:00 (default UTC)")
	own.StringVar(&t.table.Every, "every", "", "interval between the samples of a table without times, such as 3m; times are then counted from 1970-01-01")
	own.StringVar(&t.table.Stream, "stream", "", "column with the name of the stream")
	own.StringVar(&t.table.Time, "time", "", "column of times")
	own.StringVar(&t.table.Seq, "seq", "", "column with whole numbers that increase within a stream, such as cycles")
	own.StringVar(&t.table.End, "end", "", "column that marks the end of a sequence by 1 or true")
	own.StringVar(&t.table.Label, "label", "", "column of labels, or a regular expression with a group in parentheses over the names of streams")
	own.StringVar(&t.table.Group, "group", "", "column of groups, for train --group")
	own.StringVar(&t.table.Target, "target", "", "column of numbers to learn, for train --target; or remaining: the samples, by --seq, until the end of the stream; or remaining-time: the seconds")
	own.StringVar(&t.table.Sensor, "sensor", "", "column with the name of a sensor, if a row is a value; requires --value")
	own.StringVar(&t.table.Value, "value", "", "column of values, with --sensor")
	own.StringVar(&t.table.Channels, "channels", "", "channels, such as temp*,pressure (default: all columns with numbers and no other use)")
	own.StringVar(&t.table.Ignore, "ignore", "", "columns to leave out, such as index,status*")
	own.StringVar(&t.classes, "classes", "", "new names of labels, such as 0=normal,1=fault")
	own.Float64Var(&t.table.Cap, "cap", 0, "with --target: larger numbers become this number")
	own.StringVar(&t.table.Runs, "runs", "", "table with a row for each stream in order, with the columns of --label, --group or --target; with --target remaining: what remains after the last sample")
	own.BoolVar(&t.table.Ends, "ends", false, "the last sample of each stream ends a sequence, for train --policy marked")
	own.StringVar(&t.table.Samples, "samples", "", "samples of each stream to import, such as 1..400 for a training and 401.. for a test (default: all)")
	own.VisitAll(func(flag *pflag.Flag) { t.own = append(t.own, flag.Name) })
	f.AddFlagSet(own)
}

// readFlags returns the description of the tables, and the name of a used flag.
func (t *tableFlags) readFlags(f *pflag.FlagSet) (table imports.Table, used string, err error) {
	f.Visit(func(flag *pflag.Flag) {
		if slices.Contains(t.own, flag.Name) {
			used = flag.Name
		}
	})
	if t.read != "" {
		if table, err = imports.ReadMapping(t.read); err != nil {
			return table, used, fmt.Errorf("--mapping: %w", err)
		}
	}
	if t.table.Names, err = imports.ExpandNames(t.names); err != nil {
		return table, used, fmt.Errorf("--columns: %w", err)
	}
	if t.classes != "" {
		t.table.Classes = map[string]string{}
		for pair := range strings.SplitSeq(t.classes, ",") {
			from, to, ok := strings.Cut(strings.TrimSpace(pair), "=")
			if !ok || to == "" {
				return table, used, fmt.Errorf("--classes %q: want pairs such as 0=normal,1=fault", t.classes)
			}
			t.table.Classes[from] = to
		}
	}
	table.Override(t.table)
	if err := table.Check(); err != nil {
		return table, used, fmt.Errorf("--%w", err)
	}
	return table, used, nil
}

// importRecording converts tables, and writes the mapping file with this name unless the
// name is empty.
func importRecording(ctx context.Context, a *cli.App, r imports.RecordingImport, to importTarget, mapping string) error {
	files, err := imports.TableFiles(r.Path)
	if err != nil {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream import --help")
	}
	name := archives.NameRecording(r.Path)
	if r.Dry, r.Out = to.dry, cmp.Or(to.out, name+".parquet"); name != imports.BaseName(r.Path) {
		r.Name = cmp.Or(r.Name, name)
	}
	if r.Table.Runs != "" {
		files = append(files, r.Table.Runs)
	}
	for _, file := range files {
		if err := cli.WholeFile(file); err != nil {
			return err
		}
	}
	if err := cli.MayWrite(r.Out, to.force, files...); err != nil {
		return err
	}
	if mapping != "" {
		if err := cli.MayWrite(mapping, to.force, files...); err != nil {
			return err
		}
	}
	p := a.Progress()
	sum, err := imports.ImportRecording(ctx, r, p.Report)
	p.Close()
	if err != nil {
		return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream import --help")
	}
	if mapping != "" {
		if err := cli.ReplaceFile(mapping, sum.Table.Mapping(), cli.Public); err != nil {
			return cli.Fail(cli.ExitFailure, err, "")
		}
		a.Say("wrote %s", mapping)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Archive string `json:"archive"`
			imports.RecordingSummary
		}{r.Out, sum})
	}
	printRecording(a, sum, to.dry)
	to.sayWritten(a, r.Out)
	sayNext(a, r.Out, sum.Target, to.dry)
	return nil
}

// sayNext names the next command for a recording with numbers to learn.
func sayNext(a *cli.App, out, target string, dry bool) {
	if !dry && target != "" {
		a.Say("next: eusn-stream train %s --target %s", cli.QuoteForShell(out), cli.QuoteForShell(target))
	}
}

// printRecording prints the summary of an import, with a line for each column after a dry
// run.
func printRecording(a *cli.App, sum imports.RecordingSummary, columns bool) {
	a.Print("%d samples of %d streams, %d channel(s), %d sequence ends, %d values missing", sum.Rows, sum.Streams, len(sum.Channels), sum.Ends, sum.Missing)
	a.Print("columns %s; channels %s", strings.Join(sum.Columns, ", "), models.ListText(sum.Channels))
	t := sum.Table
	if text := timesText(t); text != "" {
		a.Print("%s", text)
	}
	if len(t.Labels) > 0 {
		a.Print("labels %s", labelsText(t.Labels))
	}
	if columns {
		printColumns(a, t.Columns)
	} else {
		printFindings(a, t.Columns)
	}
	for _, note := range t.Notes {
		a.Say("note: %s", note)
	}
	for _, warning := range t.Warnings {
		a.Say("warning: %s", warning)
	}
}

// timesText describes the times of a recording.
func timesText(t imports.TableSummary) string {
	if t.From == 0 && t.To == 0 {
		return ""
	}
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }
	text := fmt.Sprintf("times %s to %s", at(t.From), at(t.To))
	if t.TimeUnit != "" {
		text += ", numbers in " + t.TimeUnit
	}
	if t.Dates != "" {
		text += ", " + t.Dates
	}
	if t.Rate > 0 {
		text += fmt.Sprintf(", %.5g Hz (every %s)", t.Rate, time.Duration(1e9/t.Rate).Round(time.Microsecond))
	}
	return text
}

// labelsText lists labels with their numbers of samples, the most frequent first.
func labelsText(labels map[string]int64) string {
	var all []string
	for label := range labels {
		all = append(all, label)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(labels[b], labels[a]), strings.Compare(a, b)) })
	text := make([]string, len(all))
	for i, label := range all {
		text[i] = fmt.Sprintf("%s %d", cmp.Or(names.Cut(label, 40), "(none)"), labels[label])
	}
	return models.ListText(text)
}

// gradedText lists the channels of the grades C and D.
func gradedText(columns []imports.Column) string {
	var all []string
	for _, c := range columns {
		if c.Profile.Grade == "C" || c.Profile.Grade == "D" {
			all = append(all, fmt.Sprintf("%s %s (%s)", names.Cut(c.Name, 40), c.Profile.Grade, c.Profile.Why))
		}
	}
	return strings.Join(all, ", ")
}

// printFindings prints the columns that are left out, and the channels of the grades C and D.
func printFindings(a *cli.App, columns []imports.Column) {
	var left []string
	for _, c := range columns {
		if c.Kind == "ignored" {
			left = append(left, fmt.Sprintf("%s (%s)", cmp.Or(names.Cut(c.Name, 40), "a column"), cmp.Or(c.Reason, "by the mapping")))
		}
	}
	if len(left) > 0 {
		a.Print("left out %s", strings.Join(left, ", "))
	}
	if bad := gradedText(columns); bad != "" {
		a.Print("grades C and D: %s", bad)
	}
}

// printColumns prints a line for each column.
func printColumns(a *cli.App, columns []imports.Column) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "column\tkind\tunit\tmissing\tmin\tmax\tgrade\treason")
	for _, c := range columns {
		missing, least, most, p := "", "", "", c.Profile
		if all := p.Values + p.Missing; all > 0 {
			missing = fmt.Sprintf("%.3g %%", 100*float64(p.Missing)/float64(all))
		}
		if p.Values > 0 {
			least, most = fmt.Sprintf("%.5g", p.Min), fmt.Sprintf("%.5g", p.Max)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", names.Cut(c.Name, 40), c.Kind, c.Unit, missing, least, most, p.Grade, cmp.Or(p.Why, c.Reason))
	}
	w.Flush()
	for line := range strings.Lines(text.String()) {
		a.Print("%s", strings.TrimRight(line, " \n"))
	}
}
