package models

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/edge"
	"github.com/eusn-stream/eusn-stream/internal/cli"
)

type exportRun struct {
	edge.Options
	output string
	format string
	force  bool
}

func newModelExport(a *cli.App) *cobra.Command {
	var e exportRun
	cmd := &cobra.Command{
		Use:   "export FILE --format c|html",
		Short: "Write a model as a C header for a device, or as a page for a browser",
		Long: `Write a model as one C99 header, for devices that do not run this program (--format c), or as
one HTML file that classifies series in a browser, without a server (--format html). The header
needs no library and allocates nothing. States, scores, class and probability are those
of this program, bit for bit.

Neither cuts sequences: the program around the header says where one begins, and on the
page each series is one. They have no flags, no early predictions and no detector of what
is novel; --omit early,novelty leaves these out of a model that has them. Models with a
front end are refused; a header has operating regimes, a page has not.`,
		Example: `  eusn-stream model export demo-data/machine.safetensors --format c --output machine.h
  eusn-stream model export demo-data/machine.safetensors --format html --output machine.html
  eusn-stream model export pump.safetensors --format c --omit novelty --name pump --output pump.h`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&e.format, "format", "", "c: a C header; html: a page for a browser")
	cobra.CheckErr(cmd.MarkFlagRequired("format"))
	f.StringVarP(&e.output, "output", "o", "", "file to write (default: the model's name with .h or .html)")
	f.BoolVar(&e.force, "force", false, "overwrite an existing file")
	f.StringVar(&e.Name, "name", "eusn", "with --format c: what all names in it begin with: small letters, digits and _")
	f.StringVar(&e.Readout, "readout", "", "readout that predicts (default: the only one)")
	f.StringSliceVar(&e.Without, "omit", nil, "parts of the model to leave out: "+strings.Join(edge.Parts, ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if e.format != "c" && e.format != "html" {
			return fmt.Errorf("--format %s: want c or html", e.format)
		}
		return a.Do(func(context.Context, []string) error { return exportModel(a, args[0], e) })(cmd, args)
	}
	return cmd
}

func exportModel(a *cli.App, path string, e exportRun) error {
	ending, write := ".h", edge.C
	if e.format == "html" {
		ending, write = ".html", edge.HTML
	}
	if e.output == "" {
		e.output = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + ending
	}
	if err := cli.MayWrite(e.output, e.force, path); err != nil {
		return err
	}
	m, err := Load(path)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	size, err := write(&text, m, e.Options)
	if err != nil {
		next := "eusn-stream model export --help"
		for _, part := range edge.Parts {
			if errors.Is(err, edge.ErrPart) && strings.Contains(err.Error(), "("+part+")") {
				next = "add " + strings.Join(append(e.Without, part), ",") + " to --omit"
			}
		}
		return cli.Fail(cli.ExitFailure, err, next)
	}
	if err := cli.ReplaceFile(e.output, text.Bytes(), cli.Public); err != nil {
		return cli.Fail(cli.ExitFailure, err, "choose another name")
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Path string `json:"path"`
			edge.Size
		}{e.output, size})
	}
	a.Print("%s: %d bytes of memory for each stream, %d bytes of constants", e.output, size.State, size.Constants)
	return nil
}
