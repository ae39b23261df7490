// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	logsjson "k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// loggers are the formats of the manager.
func loggers(out *bytes.Buffer) map[string]logr.Logger {
	json, _ := logsjson.NewJSONLogger(0, logsjson.AddNopSync(out), nil, nil)
	return map[string]logr.Logger{"text": textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out))), "json": json}
}

// entriesOf parses a log.
func entriesOf(t *testing.T, log string, stamped bool) []entry {
	t.Helper()
	var entries []entry
	if err := readEntries(strings.NewReader(log), stamped, func(e entry) { entries = append(entries, e) }); err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestEntries parses what the loggers of the manager write.
func TestEntries(t *testing.T) {
	t.Parallel()
	for name := range loggers(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &bytes.Buffer{}
			log := loggers(out)[name].WithValues("HelmOpRelease", klog.KRef("ns", "calico-one"), "reconcileID", "1")
			log.Info("Cannot act", "Cluster", client.ObjectKey{Namespace: "ns", Name: "one"}, "items", []int{1},
				"error", "first HelmOp=\"ns/other\"\n\tsecond\n >", "n", 3)
			log.Error(errors.New("one\ntwo"), "Reconciler error")
			log.Info("The last one")
			entries := entriesOf(t, out.String(), false)
			if len(entries) != 3 {
				t.Fatalf("got %d entries of:\n%s", len(entries), out.String())
			}
			var texts []string
			for i := range entries {
				texts = append(texts, entries[i].text)
				if got := entries[i].keys[keyRelease]; got != "ns/calico-one" {
					t.Errorf("%d: got the release %q of %q", i, got, entries[i].text)
				}
			}
			if got := strings.Join(texts, "\n") + "\n"; got != out.String() {
				t.Errorf("got\n%s\nwant\n%s", got, out.String())
			}
			first := entries[0]
			if first.keys[keyCluster] != "ns/one" || first.keys[keyHelmOp] != "" || first.severity != severityInfo ||
				entries[1].severity != severityError || entries[2].severity != severityInfo {
				t.Errorf("got %+v", entries)
			}
		})
	}
}

func TestReadEntries(t *testing.T) {
	t.Parallel()
	const header = "W0101 00:00:00.000000       1 a.go:1] "
	for name, tc := range map[string]struct {
		log     string
		stamped bool
		want    []string
	}{
		"nothing":          {"", false, nil},
		"empty lines":      {"\n\n", false, []string{"", ""}},
		"no line end":      {header + `"a"`, false, []string{header + `"a"`}},
		"a value":          {header + "\"a\" k=<\n\tx\n > l=<\n\ty\n >\nb\n", false, []string{header + "\"a\" k=<\n\tx\n > l=<\n\ty\n >", "b"}},
		"a cut value":      {header + "\"a\" k=<\n\tx\n", false, []string{header + "\"a\" k=<\n\tx"}},
		"an ended value":   {header + "\"a\" k=<\n\tx\n" + header + "b", false, []string{header + "\"a\" k=<\n\tx", header + "b"}},
		"another program":  {"goroutine 1 [running]:\n\tx.go:1 a=<\n", false, []string{"goroutine 1 [running]:", "\tx.go:1 a=<"}},
		"with timestamps":  {"2026-11-25T12:00:00.5Z " + header + "a\nb\n", true, []string{header + "a", "b"}},
		"without, stamped": {header + "a", true, []string{header + "a"}},
	} {
		var got []string
		for _, e := range entriesOf(t, tc.log, tc.stamped) {
			got = append(got, e.text)
		}
		if strings.Join(got, "|") != strings.Join(tc.want, "|") || len(got) != len(tc.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	at := entriesOf(t, "2026-11-25T12:00:00.5Z "+header+"a", true)[0]
	if !at.at.Equal(time.Date(2026, 11, 25, 12, 0, 0, 500e6, time.UTC)) || at.severity != severityWarning {
		t.Errorf("got %+v", at)
	}
}

func FuzzNewEntry(f *testing.F) {
	f.Add("I0101 00:00:00.000000       1 a.go:1] \"a\" b=<\n\tc\n > d={\"e\":1} f=%")
	f.Add(`{"v":0,"HelmOp":{"name":"a"}}`)
	f.Fuzz(func(_ *testing.T, text string) { newEntry(text, time.Time{}) })
}

// TestConcerns has entries about a HelmOp, its releases and its Clusters.
func TestConcerns(t *testing.T) {
	t.Parallel()
	helmOp := client.ObjectKey{Namespace: "ns", Name: "calico"}
	all := subject{helmOp: helmOp, others: []string{"calico-extra"}}
	one := all
	one.cluster = &client.ObjectKey{Namespace: "ns", Name: "one"}
	release := "ns/" + apiutil.ChildName("calico", "one")
	for name, tc := range map[string]struct {
		keys         map[string]string
		isAll, isOne bool
	}{
		"nothing":            {nil, false, false},
		"the HelmOp":         {map[string]string{keyHelmOp: "ns/calico"}, true, false},
		"another HelmOp":     {map[string]string{keyHelmOp: "ns/cilium", keyCluster: "one"}, false, false},
		"another namespace":  {map[string]string{keyHelmOp: "ns2/calico"}, false, false},
		"the Cluster":        {map[string]string{keyCluster: "ns/one"}, false, true},
		"a step":             {map[string]string{keyHelmOp: "ns/calico", keyCluster: "one"}, true, true},
		"a step of two":      {map[string]string{keyHelmOp: "ns/calico", keyCluster: "two"}, true, false},
		"the release":        {map[string]string{keyRelease: release}, true, true},
		"a release":          {map[string]string{keyRelease: "ns/calico-two-1"}, true, false},
		"a longer name":      {map[string]string{keyRelease: "ns/calico-extra-two-1"}, false, false},
		"a release of ns2":   {map[string]string{keyRelease: "ns2/calico-two-1"}, false, false},
		"an Event":           {map[string]string{"object": "ns/calico", "kind": "HelmOp"}, true, false},
		"an Event of it":     {map[string]string{"object": release, "kind": "HelmOpRelease"}, true, true},
		"an Event of others": {map[string]string{"object": "ns/calico", "kind": "Pod"}, false, false},
		"a revision":         {map[string]string{keyRevision: "ns/calico-7"}, true, false},
	} {
		e := &entry{keys: tc.keys}
		if all.concerns(e) != tc.isAll || one.concerns(e) != tc.isOne {
			t.Errorf("%s: got %v and %v", name, all.concerns(e), one.concerns(e))
		}
	}
}
