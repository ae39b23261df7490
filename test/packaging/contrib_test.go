// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
)

// TestK9sPluginsAreCommands parses the command lines of the plugins of k9s.
func TestK9sPluginsAreCommands(t *testing.T) {
	t.Parallel()
	var file struct {
		Plugins map[string]struct {
			ShortCut, Description, Command string
			Scopes, Args                   []string
			Background, Confirm            bool
		} `json:"plugins"`
	}
	if err := yaml.UnmarshalStrict(readFile(t, "contrib/k9s/helmop.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Plugins) == 0 {
		t.Fatal("no plugins")
	}
	shortCuts := map[string]bool{}
	for name, plugin := range file.Plugins {
		if shortCuts[plugin.ShortCut] || plugin.ShortCut == "" || len(plugin.Scopes) == 0 {
			t.Errorf("%s has the shortcut %q and the scopes %v", name, plugin.ShortCut, plugin.Scopes)
		}
		shortCuts[plugin.ShortCut] = true
		if plugin.Command != "sh" || len(plugin.Args) != 2 || plugin.Args[0] != "-c" {
			t.Errorf("%s runs %s %q", name, plugin.Command, plugin.Args)
			continue
		}
		line, _, _ := strings.Cut(plugin.Args[1], " |")
		args, ok := strings.CutPrefix(line, "kubectl helmop ")
		if !ok {
			t.Errorf("%s runs %q", name, line)
			continue
		}
		command, rest, err := cli.Command(genericiooptions.NewTestIOStreamsDiscard()).Find(strings.Fields(args))
		if err != nil || !command.HasParent() {
			t.Errorf("%s runs %q: %v", name, line, err)
			continue
		}
		if err := command.ParseFlags(rest); err != nil {
			t.Errorf("%s runs %q: %v", name, line, err)
			continue
		}
		if err := command.ValidateArgs(command.Flags().Args()); err != nil {
			t.Errorf("%s runs %q: %v", name, line, err)
		}
	}
}

// TestRenovatePreset finds the chart of each HelmOp in the examples.
func TestRenovatePreset(t *testing.T) {
	t.Parallel()
	var preset struct {
		CustomManagers []struct{ MatchStrings []string }
	}
	if err := json.Unmarshal(readFile(t, "contrib/renovate/helmop.json"), &preset); err != nil {
		t.Fatal(err)
	}
	var patterns []*regexp.Regexp
	for _, manager := range preset.CustomManagers {
		for _, match := range manager.MatchStrings {
			patterns = append(patterns, regexp.MustCompile(match))
		}
	}
	paths, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d examples, %v", len(paths), err)
	}
	ref := regexp.MustCompile(`(?m)^ +ref:\n +(tag|semver):`)
	for _, path := range paths {
		text := string(readFile(t, filepath.Join("examples", filepath.Base(path))))
		found := 0
		for _, pattern := range patterns {
			for _, one := range pattern.FindAllStringSubmatch(text, -1) {
				found++
				name, version := one[pattern.SubexpIndex("depName")], one[pattern.SubexpIndex("currentValue")]
				isNamed := strings.Contains(text, "oci://"+name+"\n") || strings.Contains(text, "chart: "+name+"\n")
				if !isNamed || strings.ContainsAny(version, " \"'") {
					t.Errorf("%s: found %q with the version %q", filepath.Base(path), name, version)
				}
			}
		}
		if want := len(ref.FindAllString(text, -1)); found != want {
			t.Errorf("%s: found %d of %d charts", filepath.Base(path), found, want)
		}
	}
}
