// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/file"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// TestArtifactFormats installs an artifact of each format that is not a Helm chart, changes it, and changes it back.
func TestArtifactFormats(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one"})[0]
	parts := map[string]func(*scenario){
		"templates": func(s *scenario) { one.in(s).takeTemplates() },
		"broken":    func(s *scenario) { one.in(s).takeBroken() },
	}
	for name, format := range artifactFormats() {
		parts[name] = func(s *scenario) { one.in(s).takeArtifact(name, format) }
	}
	s.each(parts)
}

// artifactFormat creates an artifact of files, and has the expected format and the path to use.
type artifactFormat struct {
	make   func(s *scenario, files map[string]string) registry.Raw
	path   string
	format addonsv1.ArtifactFormat
}

func artifactFormats() map[string]artifactFormat {
	return map[string]artifactFormat{
		"flux":   {make: fluxArtifact, path: "./deploy", format: "Flux"},
		"plain":  {make: plainBundle, format: "Plain"},
		"files":  {make: orasFiles, format: "Files"},
		"folder": {make: orasFolder, format: "Files"},
		"fleet":  {make: fleetBundle, format: "Fleet"},
	}
}

// takeArtifact installs an artifact, upgrades it to another version, and returns to the first version.
func (w *workload) takeArtifact(name string, format artifactFormat) {
	w.takeArtifactAs(name, format, forAll)
}

// takeArtifactAs does what takeArtifact does, with a HelmOp that is changed by target.
func (w *workload) takeArtifactAs(name string, format artifactFormat, target func(*addonsv1.HelmOp)) {
	s := w.scenario
	repository := s.namespace + "/" + name
	s.pushArtifact(repository, "1.0.0", format.make(s, manifestFiles(name, "first", "gone")))
	s.pushArtifact(repository, "1.1.0", format.make(s, manifestFiles(name, "second")))
	helmOp := s.newHelmOp(name, target, s.from(repository, addonsv1.ArtifactReference{Tag: "1.0.0"}),
		func(h *addonsv1.HelmOp) {
			h.Spec.Values, h.Spec.Source.Path = nil, format.path
		})
	s.create(helmOp)
	child := w.eventuallyReleased(helmOp, releaseNamespace, name, 1)
	s.Expect(child.Spec.Artifact.Format).To(gomega.Equal(format.format))
	s.Expect(child.Status.Release.Version).To(gomega.Equal("1.0.0"))
	w.expectManifests(name, "first", true)

	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.1.0" })
	w.eventuallyReleased(helmOp, releaseNamespace, name, 2)
	w.expectManifests(name, "second", false)

	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.0.0" })
	w.eventuallyReleased(helmOp, releaseNamespace, name, 3)
	w.expectManifests(name, "first", true)
	w.eventuallyRevisions(releaseNamespace, name, "1 superseded", "2 superseded", "3 deployed")

	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.expectConfigMap(name, nil)
	s.must(w.Get(s.Context(), client.ObjectKey{Name: "things." + name + ".test"},
		&apiextensionsv1.CustomResourceDefinition{}))
}

// manifestFiles returns a CustomResourceDefinition, an object of its kind, a ConfigMap with a text, and more
// ConfigMaps.
func manifestFiles(name, text string, more ...string) map[string]string {
	files := map[string]string{
		"crd.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s.test}
spec:
  group: %[1]s.test
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: %[2]s}}}
`, name, text),
		"objects.yaml": fmt.Sprintf(`apiVersion: %[1]s.test/v1
kind: Thing
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s}
data: {text: "{{ .Values.%[2]s }}"}
`, name, text),
	}
	for _, other := range more {
		files[other+".json"] = fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s-%s"}}`, name,
			other)
	}
	return files
}

// expectManifests fails unless the cluster has exactly the objects of manifestFiles.
func (w *workload) expectManifests(name, text string, more bool) {
	s := w.scenario
	s.Helper()
	w.expectConfigMap(name, map[string]string{"text": "{{ .Values." + text + " }}"})
	err := w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: name + "-gone"}, &corev1.ConfigMap{})
	s.must(client.IgnoreNotFound(err))
	s.Expect(err == nil).To(gomega.Equal(more), "existence of the ConfigMap of the first version")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	s.must(w.Get(s.Context(), client.ObjectKey{Name: "things." + name + ".test"}, definition))
	s.Expect(definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Description).To(gomega.Equal(text))
	thing := newDish()
	thing.SetAPIVersion(name + ".test/v1")
	thing.SetKind("Thing")
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: name}, thing))
}

// takeTemplates renders the files of an artifact with values.
func (w *workload) takeTemplates() {
	s, repository := w.scenario, w.scenario.namespace+"/templates"
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: templates}\ndata:\n{{- range $k, $v := .Values.data " +
		"}}\n  {{ $k }}: {{ $v | quote }}\n{{- end }}\n"
	s.pushArtifact(repository, "main", fluxArtifact(s, map[string]string{"a.yaml": text}))
	helmOp := s.newHelmOp("templates", forAll, s.from(repository, addonsv1.ArtifactReference{Tag: "main"}),
		func(h *addonsv1.HelmOp) {
			h.Spec.Values = rawJSON(map[string]any{"data": map[string]any{"cluster": "{{ .Cluster.metadata.name }}"}})
		})
	s.create(helmOp)
	s.child(helmOp, "one", childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
		addonsv1.ArtifactInvalidReason))
	s.eventually(helmOp, failure("one", addonsv1.ArtifactInvalidReason, "deploy/a.yaml:6 is not YAML"))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Templating = addonsv1.TemplatingHelm })
	child := w.eventuallyReleased(helmOp, releaseNamespace, "templates", 1)
	s.Expect(child.Status.Release.Version).To(gomega.HavePrefix("0.0.0+"))
	w.expectConfigMap("templates", map[string]string{"cluster": "one"})
}

// takeBroken installs an image that is not a bundle, and upgrades to a version with the same object in two files. The
// release stays.
func (w *workload) takeBroken() {
	s, repository := w.scenario, w.scenario.namespace+"/broken"
	s.pushArtifact(repository, "0.9.0", registry.Raw{ConfigType: ocispec.MediaTypeImageConfig, Layers: []registry.Layer{{
		MediaType: ocispec.MediaTypeImageLayerGzip, Data: s.tarball(map[string]string{"bin/sh": "#!"}),
	}}})
	twice := manifestFiles("broken", "second")
	twice["twice.yaml"] = twice["objects.yaml"]
	s.pushArtifact(repository, "1.0.0", orasFolder(s, manifestFiles("broken", "first", "gone")))
	s.pushArtifact(repository, "1.1.0", orasFolder(s, twice))
	helmOp := s.newHelmOp("broken", forAll, s.from(repository, addonsv1.ArtifactReference{Tag: "0.9.0"}),
		func(h *addonsv1.HelmOp) { h.Spec.Values = nil })
	s.create(helmOp)
	s.eventually(helmOp, failure("one", addonsv1.UnsupportedArtifactReason, `no folder /manifests`, `it has "bin"`))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.0.0" })
	w.eventuallyReleased(helmOp, releaseNamespace, "broken", 1)

	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.1.0" })
	s.eventually(helmOp, failure("one", addonsv1.ArtifactInvalidReason, "deploy/objects.yaml:1", "deploy/twice.yaml:1"))
	w.expectManifests("broken", "first", true)
	w.eventuallyRevisions(releaseNamespace, "broken", "1 deployed")
}

// pushArtifact pushes an artifact.
func (s *scenario) pushArtifact(repository, tag string, raw registry.Raw) {
	s.Helper()
	_, err := s.env.Registry.PushRaw(s.Context(), repository, tag, raw)
	s.must(err)
}

// tarball returns an archive of files, with their folders before them.
func (s *scenario) tarball(files map[string]string) []byte {
	s.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	folders := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if folder := filepath.Dir(name); !folders[folder] {
			folders[folder] = true
			s.must(archive.WriteHeader(&tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: 0o755}))
		}
		s.must(archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(files[name]))}))
		_, err := archive.Write([]byte(files[name]))
		s.must(err)
	}
	s.must(archive.Close())
	s.must(zipped.Close())
	return packed.Bytes()
}

// inFolder returns the files in a folder.
func inFolder(folder string, files map[string]string) map[string]string {
	moved := map[string]string{}
	for name, text := range files {
		moved[folder+"/"+name] = text
	}
	return moved
}

// fluxArtifact returns an artifact of Flux. With several files, it has a kustomization.
func fluxArtifact(s *scenario, files map[string]string) registry.Raw {
	all := inFolder("deploy", files)
	if len(files) > 1 {
		all["deploy/kustomization.yaml"] = "resources: [" + strings.Join(slices.Sorted(maps.Keys(files)), ", ") + "]\n"
	}
	return registry.Raw{ConfigType: "application/vnd.cncf.flux.config.v1+json", Layers: []registry.Layer{{
		MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", Data: s.tarball(all),
	}}}
}

// plainBundle has a layer with a file that the next layer deletes.
func plainBundle(s *scenario, files map[string]string) registry.Raw {
	return registry.Raw{ConfigType: ocispec.MediaTypeImageConfig, Layers: []registry.Layer{
		{MediaType: ocispec.MediaTypeImageLayerGzip,
			Data: s.tarball(map[string]string{"bin/sh": "#!", "manifests/old.yaml": "not: an object"})},
		{MediaType: ocispec.MediaTypeImageLayerGzip, Data: s.tarball(map[string]string{"manifests/.wh.old.yaml": ""})},
		{MediaType: ocispec.MediaTypeImageLayerGzip, Data: s.tarball(inFolder("manifests", files))},
	}}
}

func fleetBundle(s *scenario, files map[string]string) registry.Raw {
	resources := []map[string]string{{"name": "fleet.yaml", "content": "defaultNamespace: elsewhere\n"}}
	for name, text := range files {
		var packed bytes.Buffer
		zipped := gzip.NewWriter(&packed)
		_, err := zipped.Write([]byte(text))
		s.must(err)
		s.must(zipped.Close())
		resources = append(resources, map[string]string{"name": name,
			"content": base64.StdEncoding.EncodeToString(packed.Bytes()), "encoding": "base64+gz"})
	}
	data, err := json.Marshal(map[string]any{"resources": resources})
	s.must(err)
	return registry.Raw{ArtifactType: "application/fleet.manifest", ConfigType: ocispec.MediaTypeEmptyJSON,
		Layers: []registry.Layer{{
			MediaType: "application/fleet.file", Data: data, Annotations: map[string]string{"id": "s-test"},
		}}}
}

// orasFiles returns what "oras push" packs for files.
func orasFiles(s *scenario, files map[string]string) registry.Raw {
	return s.oras(files, slices.Sorted(maps.Keys(files))...)
}

// orasFolder returns what "oras push" packs for a folder.
func orasFolder(s *scenario, files map[string]string) registry.Raw {
	return s.oras(inFolder("deploy", files), "deploy")
}

// oras writes files and packs the named ones with the library of ORAS.
func (s *scenario) oras(files map[string]string, names ...string) registry.Raw {
	s.Helper()
	dir, err := os.MkdirTemp(suite.dir, "oras-")
	s.must(err)
	for name, text := range files {
		s.must(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		s.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	store, err := file.New(dir)
	s.must(err)
	raw := registry.Raw{ArtifactType: "application/vnd.unknown.artifact.v1", ConfigType: ocispec.MediaTypeEmptyJSON}
	for _, name := range names {
		layer, err := store.Add(context.Background(), name, "", filepath.Join(dir, name))
		s.must(err)
		data, err := content.FetchAll(context.Background(), store, layer)
		s.must(err)
		raw.Layers = append(raw.Layers,
			registry.Layer{MediaType: layer.MediaType, Data: data, Annotations: layer.Annotations})
	}
	s.must(store.Close())
	return raw
}
