// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command screenshots creates the pictures in the documentation: the page of "kubectl helmop ui" for a fleet in memory,
// and outputs of commands from the golden files of the tests. "make screenshots" runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui/uitest"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/browser"
)

// maxBytes is the size of the largest picture that the documentation may have.
const maxBytes = 150_000

// commands are the commands whose outputs have pictures, by the names of the files with the outputs.
var commands = map[string]string{
	"status":       "kubectl helmop status",
	"preview-many": "kubectl helmop preview many --set-version 1.1.0",
}

// picture is a view of the page, or the output of a command.
type picture struct {
	name, path    string
	width, height int
	dark          bool
}

// pictures returns the pictures of the documentation.
func pictures() []picture {
	return []picture{
		{name: "status", path: "/command/status", width: 1160, height: 290, dark: true},
		{name: "preview-many", path: "/command/preview-many", width: 900, height: 620, dark: true},
		{name: "ui-fleet", path: "/", width: 1160, height: 940},
		{name: "ui-rollout", path: "/helmop/fleet/calico", width: 1100, height: 700, dark: true},
	}
}

// looks returns a picture of each view, narrow and wide, light and dark. The pictures help to check changes of the
// style sheet.
func looks() []picture {
	var every []picture
	for name, path := range map[string]string{
		"fleet": "/", "rollout": "/helmop/fleet/calico", "cluster": "/cluster/fleet/prod-005", "versions": "/versions",
		"release":  "/release/fleet/" + apiutil.ChildName("ingress", "prod-004"),
		"filtered": "/?state=Unhealthy", "missing": "/helmop/fleet/none",
	} {
		for _, width := range []int{390, 1280} {
			every = append(every, picture{fmt.Sprintf("%s-%d-light", name, width), path, width, 1400, false},
				picture{fmt.Sprintf("%s-%d-dark", name, width), path, width, 1400, true})
		}
	}
	return every
}

func main() {
	output := flag.String("output", filepath.Join("docs", "images"), "folder of the pictures")
	all := flag.Bool("all", false, "make a picture of each view, narrow and wide, light and dark, instead")
	flag.Parse()
	wanted := pictures()
	if *all {
		wanted = looks()
	}
	if err := run(*output, wanted); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(output string, wanted []picture) (err error) {
	path, err := browser.Find()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	tab, err := browser.Start(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tab.Close()) }()
	mux := http.NewServeMux()
	mux.HandleFunc("/command/{name}", showCommand)
	mux.Handle("/", ui.New(ui.Options{Source: uitest.New(40), Base: "/", Scope: "namespace " + uitest.Namespace,
		Program: fleetview.Program{Name: "kubectl helmop"}, MaxStreams: 1, Now: uitest.Now}))
	server := httptest.NewServer(mux)
	defer server.Close()
	defer server.CloseClientConnections()
	for _, p := range wanted {
		data, err := shoot(ctx, tab, server.URL, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		file := filepath.Join(output, p.name+".png")
		fmt.Printf("%s: %d bytes\n", file, len(data))
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shoot takes a picture, and compresses it as far as PNG can.
func shoot(ctx context.Context, tab *browser.Tab, server string, p picture) ([]byte, error) {
	if err := tab.Look(ctx, p.width, p.height, p.dark); err != nil {
		return nil, err
	}
	if err := tab.Open(ctx, server+p.path); err != nil {
		return nil, err
	}
	raw, err := tab.Screenshot(ctx)
	if err != nil {
		return nil, err
	}
	image, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, image); err != nil {
		return nil, err
	}
	if out.Len() > maxBytes && p.height < 1400 {
		return nil, fmt.Errorf("the picture has %d bytes, more than %d", out.Len(), maxBytes)
	}
	return out.Bytes(), nil
}

// terminal shows a command and its output.
var terminal = template.Must(template.New("").Parse(`<!doctype html><meta charset="utf-8"><style>
body { margin: 0; padding: 14px 18px; background: #12151b; color: #d8dde6; }
pre { font: 12px/1.45 ui-monospace, monospace; margin: 0; white-space: pre-wrap; }
b { color: #4ade80; }
</style><pre><b>$</b> {{.Command}}
{{.Output}}</pre>`))

func showCommand(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data, err := os.ReadFile(filepath.Join("internal", "cli", "fleet", "testdata", name+".txt"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = terminal.Execute(w, struct{ Command, Output string }{commands[name], strings.TrimSpace(string(data))})
}
