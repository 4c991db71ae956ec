package man

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestPages(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "does things", Long: "First.\n.begins with a dot, and C:\\path\n\n  as it is\n\nLast."}
	child := &cobra.Command{Use: "sub FILE", Short: "does one thing", Example: "  tool sub -x 'a'\n  tool sub", RunE: func(*cobra.Command, []string) error { return nil }}
	child.Flags().StringP("out", "o", "here", "write to `FILE`")
	child.Flags().Bool("secret", false, "never")
	if err := child.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(child, &cobra.Command{Use: "old", Hidden: true, Run: func(*cobra.Command, []string) {}})
	root.PersistentFlags().Bool("json", false, "print JSON")
	pages := Pages(root, "1.2.0", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	if len(pages) != 2 {
		t.Fatalf("%d pages, want those of tool and sub", len(pages))
	}
	for name, wants := range map[string][]string{
		"tool.1": {
			`.TH "TOOL" 1 "2026-01-02" "tool 1.2.0" "User Commands"`,
			"First.\n\\&.begins with a dot, and C:\\epath\n.PP\n.nf\n  as it is\n\n.fi\nLast.\n",
			"\\fBtool\\-sub\\fR(1)\ndoes one thing\n",
		},
		"tool-sub.1": {
			".SH SYNOPSIS\n.B tool sub\nFILE [flags]\n",
			".TP\n\\fB\\-o, \\-\\-out\\fR \\fIFILE\\fR\nwrite to FILE (default here)\n",
			".SH \"GLOBAL OPTIONS\"\n.TP\n\\fB\\-\\-json\\fR\nprint JSON\n",
			".SH EXAMPLES\n.nf\ntool sub \\-x \\(aqa\\(aq\ntool sub\n.fi\n",
			".SH \"SEE ALSO\"\n.BR tool (1)\n",
		},
	} {
		for _, want := range wants {
			if !strings.Contains(string(pages[name]), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, pages[name])
			}
		}
		if strings.Contains(string(pages[name]), "secret") {
			t.Errorf("%s shows a hidden flag", name)
		}
	}
}
