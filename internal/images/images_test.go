// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	hash := "sha256:" + strings.Repeat("a", 64)
	for name, want := range map[string]string{
		"nginx":                        "docker.io/library/nginx:latest",
		"nginx:1.25":                   "docker.io/library/nginx:1.25",
		"bitnami/redis:7":              "docker.io/bitnami/redis:7",
		"docker.io/nginx:1.25":         "docker.io/library/nginx:1.25",
		"docker.io/nginx@" + hash:      "docker.io/library/nginx@" + hash,
		"docker.io/bitnami/redis:7":    "docker.io/bitnami/redis:7",
		"index.docker.io/nginx":        "docker.io/library/nginx:latest",
		"index.docker.io/a/b:1":        "docker.io/a/b:1",
		"Registry/nginx":               "Registry/nginx:latest",
		"quay.io/cilium/cilium:v1":     "quay.io/cilium/cilium:v1",
		"localhost/a:1":                "localhost/a:1",
		"r.example:5000/a/b@" + hash:   "r.example:5000/a/b@" + hash,
		"r.example/a/b:1@" + hash:      "r.example/a/b@" + hash,
		"Not An Image":                 "",
		"r.example/a/b@sha256:too-few": "",
	} {
		got, err := Parse(name)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q: %s, %v, want %s", name, got, err, want)
		}
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	got, err := In(strings.NewReader(`
kind: Deployment
spec: {template: {spec: {initContainers: [{image: a:1}], containers: [{image: b:1}, {image: a:1}]}}}
---
# a comment
---
kind: CronJob
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: x, image: c:1}]}}}}}
---
kind: List
items: [{kind: Pod, spec: {containers: [{image: d:1}], ephemeralContainers: [{image: e:1}]}}]
---
kind: Widget
spec: {podTemplate: {spec: {volumes: [{image: {reference: f:1}}, {name: data}, {image: text}]}}}
---
kind: ConfigMap
data: {image: not-an-image, containers: text}
`))
	if err != nil || !slices.Equal(got, []string{"a:1", "b:1", "c:1", "d:1", "e:1", "f:1"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := In(strings.NewReader("a: [")); err == nil {
		t.Error("text that is not YAML is accepted")
	}
}
