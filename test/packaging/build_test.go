// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// tiltProvider has the fields of tilt-provider.yaml that this provider uses. A test below reads the list of all fields
// from Cluster API itself.
type tiltProvider struct {
	Name   string `json:"name"`
	Config struct {
		Context         string   `json:"context,omitempty"`
		Image           string   `json:"image"`
		GoMain          string   `json:"go_main"`
		KustomizeFolder string   `json:"kustomize_folder"`
		LiveReloadDeps  []string `json:"live_reload_deps"`
		ResourceDeps    []string `json:"resource_deps,omitempty"`
		Label           string   `json:"label"`
	} `json:"config"`
}

func readTiltProvider(t *testing.T) tiltProvider {
	t.Helper()
	var provider tiltProvider
	if err := yaml.UnmarshalStrict(readFile(t, "tilt-provider.yaml"), &provider); err != nil {
		t.Fatal(err)
	}
	return provider
}

// clusterAPI returns a file of the Cluster API release that go.mod requires.
func clusterAPI(t *testing.T, name string) string {
	t.Helper()
	dir, err := command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestTiltProviderHasOnlyFieldsThatClusterAPIReads checks the field names, because the Tiltfile and tilt-prepare do not
// report unknown fields.
func TestTiltProviderHasOnlyFieldsThatClusterAPIReads(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, match := range regexp.MustCompile(`\bp\.get\("(\w+)"`).FindAllStringSubmatch(clusterAPI(t, "Tiltfile"), -1) {
		known[match[1]] = true
	}
	_, section, ok := strings.Cut(clusterAPI(t, "docs/book/src/developer/core/tilt.md"), "#### config fields")
	if !ok {
		t.Fatal("Cluster API no longer documents the fields where this test looks for them")
	}
	for _, match := range regexp.MustCompile(`(?m)^\*\*(\w+)\*\*`).FindAllStringSubmatch(section, -1) {
		known[match[1]] = true
	}

	var raw struct {
		Config map[string]json.RawMessage `json:"config"`
	}
	if err := yaml.Unmarshal(readFile(t, "tilt-provider.yaml"), &raw); err != nil {
		t.Fatal(err)
	}
	for field := range raw.Config {
		if !known[field] {
			t.Errorf("Cluster API reads no field %q", field)
		}
	}
	// The Tiltfile has no default for these fields, or fails with an unclear error.
	for _, field := range []string{"image", "label", "live_reload_deps"} {
		if _, ok := raw.Config[field]; !ok {
			t.Errorf("field %q is missing", field)
		}
	}
}

func TestTiltProviderMatchesTheRepository(t *testing.T) {
	t.Parallel()
	provider := readTiltProvider(t)
	config := provider.Config
	if "addon-"+provider.Name != providerLabel {
		t.Errorf("name %q does not match the provider label %s", provider.Name, providerLabel)
	}
	if config.Context != "" {
		t.Errorf("context %q: all paths below are checked against the root", config.Context)
	}
	for _, path := range append([]string{config.GoMain, filepath.Join(config.KustomizeFolder, "kustomization.yaml")},
		config.LiveReloadDeps...) {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("%s does not exist", path)
		}
	}
	if config.KustomizeFolder != "config/default" {
		t.Errorf("kustomize folder %q is not the folder of a release", config.KustomizeFolder)
	}
	for _, folder := range managerSources(t) {
		if !covered(folder, config.LiveReloadDeps) {
			t.Errorf("a change in %q causes no rebuild: no entry of live_reload_deps covers it", folder)
		}
	}

	_, container := deployment(t)
	if name, _, _ := strings.Cut(container.Image, ":"); name != config.Image {
		t.Errorf("Tilt builds %s, the Deployment runs %s", config.Image, container.Image)
	}
}

// TestMainPackageIsOneFile checks that package main is one file. Tilt runs `go build main.go`, which compiles only this
// file.
func TestMainPackageIsOneFile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	if len(files) != 1 || filepath.Base(files[0]) != readTiltProvider(t).Config.GoMain {
		t.Errorf("package main is %v, want %s alone", files, readTiltProvider(t).Config.GoMain)
	}
}

// TestTiltResourceDependenciesExist checks the names of Tilt resources, which are derived from the lower-case label of
// their provider.
func TestTiltResourceDependenciesExist(t *testing.T) {
	t.Parallel()
	tiltfile := clusterAPI(t, "Tiltfile")
	for _, dep := range readTiltProvider(t).Config.ResourceDeps {
		label, ok := strings.CutSuffix(dep, "_controller")
		if !ok || !strings.Contains(strings.ToLower(tiltfile), `"label": "`+label+`"`) {
			t.Errorf("the Tiltfile has no resource %q", dep)
		}
	}
}

func TestDockerfileCopiesAllSourcesOfTheManager(t *testing.T) {
	t.Parallel()
	dockerfile := string(readFile(t, "Dockerfile"))
	var sources []string
	for line := range strings.Lines(dockerfile) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "COPY" || strings.HasPrefix(fields[1], "--from") {
			continue
		}
		for _, source := range fields[1 : len(fields)-1] {
			found, err := filepath.Glob(filepath.Join(root, source))
			if err != nil || len(found) == 0 {
				t.Errorf("COPY %s: there is no such file (%v)", source, err)
			}
			for _, file := range found {
				sources = append(sources, strings.TrimPrefix(filepath.ToSlash(file), root+"/"))
			}
		}
	}
	for _, folder := range managerSources(t) {
		if !covered(folder, sources) {
			t.Errorf("the Dockerfile does not copy %q, which the manager needs", folder)
		}
	}
	allowed := string(readFile(t, ".dockerignore"))
	for _, source := range sources {
		if !strings.Contains(allowed, "\n!"+source+"\n") &&
			(filepath.Ext(source) != ".go" || !strings.Contains(allowed, "\n!*.go\n")) {
			t.Errorf(".dockerignore excludes %s from the build", source)
		}
	}
}

func TestDockerfileMatchesTheDeployment(t *testing.T) {
	t.Parallel()
	dockerfile := string(readFile(t, "Dockerfile"))
	_, container := deployment(t)
	if len(container.Command) != 1 || !strings.Contains(dockerfile, `ENTRYPOINT ["`+container.Command[0]+`"]`) {
		t.Errorf("the Deployment runs %v, the Dockerfile does not", container.Command)
	}
	if !strings.Contains(dockerfile, "USER 65532:65532\n") {
		t.Error("the Dockerfile does not set the Deployment's user")
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(readFile(t, "go.mod")))
	if version == nil || !strings.Contains(dockerfile, "golang:"+version[1]+"\n") {
		t.Errorf("the Dockerfile does not build with the Go version %v of go.mod", version)
	}
}
