package models

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/edge"
	"github.com/eusn-stream/eusn-stream/internal/cli"
)

type exportRun struct {
	edge.Options
	out   string
	c     bool
	force bool
}

func newModelExport(a *cli.App) *cobra.Command {
	var e exportRun
	cmd := &cobra.Command{
		Use:   "export --c FILE",
		Short: "Write a model as a C header for a device",
		Long: `Write a model as one C99 header, for devices that do not run this program. It needs no
library and allocates nothing. States, scores, class and probability are those of
this program, bit for bit.

The header does not cut sequences: the program around it says where one begins. It has
no flags, no early predictions and no detector of what is novel; --without early,novelty
leaves them out of a model that has them. Models with a front end are refused.`,
		Example: `  eusn-stream model export --c demo-data/machine.safetensors --out machine.h
  eusn-stream model export --c pump.safetensors --without novelty --name pump --out pump.h`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.BoolVar(&e.c, "c", false, "write C")
	f.StringVarP(&e.out, "out", "o", "", "file to write (default: the model's name with .h)")
	f.BoolVar(&e.force, "force", false, "overwrite an existing file")
	f.StringVar(&e.Name, "name", "eusn", "what all names in it begin with: small letters, digits and _")
	f.StringVar(&e.Readout, "head", "", "readout that predicts (default: the only one)")
	f.StringSliceVar(&e.Without, "without", nil, "parts of the model to leave out: "+strings.Join(edge.Parts, ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !e.c {
			return errors.New("want --c")
		}
		return a.Do(func(context.Context, []string) error { return export(a, args[0], e) })(cmd, args)
	}
	return cmd
}

func export(a *cli.App, path string, e exportRun) error {
	if e.out == "" {
		e.out = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + ".h"
	}
	if err := cli.MayWrite(e.out, e.force, path); err != nil {
		return err
	}
	m, err := Load(path)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	size, err := edge.C(&text, m, e.Options)
	if err != nil {
		next := "eusn-stream model export --help"
		for _, part := range edge.Parts {
			if errors.Is(err, edge.ErrPart) && strings.Contains(err.Error(), "("+part+")") {
				next = "add " + strings.Join(append(e.Without, part), ",") + " to --without"
			}
		}
		return cli.Fail(cli.ExitFailure, err, next)
	}
	if err := cli.ReplaceFile(e.out, text.Bytes(), cli.Public); err != nil {
		return cli.Fail(cli.ExitFailure, err, "choose another name")
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Path string `json:"path"`
			edge.Size
		}{e.out, size})
	}
	a.Print("%s: %d bytes of memory for each stream, %d bytes of constants", e.out, size.State, size.Constants)
	return nil
}
