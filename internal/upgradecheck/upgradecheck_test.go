// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradecheck

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
)

// objectsOf returns objects from "apiVersion Kind name"; those with a fourth word are hooks of this event.
func objectsOf(texts ...string) Objects {
	var objects, hooks []*unstructured.Unstructured
	for _, text := range texts {
		words := strings.Fields(text)
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(words[0])
		object.SetKind(words[1])
		object.SetName(words[2])
		if len(words) > 3 {
			object.SetAnnotations(map[string]string{"helm.sh/hook": words[3]})
			hooks = append(hooks, object)
		} else {
			objects = append(objects, object)
		}
	}
	return ObjectsOf(objects, hooks)
}

func stepOf(minor int, chart string, objects Objects) Step {
	return Step{Version: apilifecycle.Version{Major: 1, Minor: minor}, Chart: chart, Digest: chart, Rendered: objects}
}

const (
	oldBudget  = "policy/v1beta1 PodDisruptionBudget web"
	newBudget  = "policy/v1 PodDisruptionBudget web"
	oldSchema  = "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema web"
	oldScaling = "autoscaling/v2beta2 HorizontalPodAutoscaler web"
)

var v36 = apilifecycle.Version{Major: 1, Minor: 36}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		release Release
		steps   []Step
		want    string
	}{
		"nothing": {steps: []Step{stepOf(25, "1", objectsOf("v1 ConfigMap web"))}},
		"removed, in the release and in the chart": {release: Release{Present: objectsOf(oldBudget)},
			steps: []Step{stepOf(25, "1", objectsOf(oldBudget, newBudget))}, want: "v1.25 APIRemoved release chart todo"},
		"removed in a later step": {release: Release{Present: objectsOf(oldBudget)},
			steps: []Step{stepOf(24, "1", objectsOf(oldBudget)), stepOf(25, "1", objectsOf(oldBudget)),
				stepOf(26, "1", objectsOf(oldBudget))}, want: "v1.25 APIRemoved release chart todo"},
		"only deprecated": {release: Release{Present: objectsOf(oldBudget)},
			steps: []Step{stepOf(23, "1", objectsOf(oldBudget)), stepOf(24, "1", objectsOf(oldBudget))},
			want:  "v1.23 APIDeprecated release chart"},
		"the chart uses the new API": {release: Release{Present: objectsOf(oldBudget)},
			steps: []Step{stepOf(25, "1", objectsOf(newBudget))}, want: "v1.25 APIRemoved release"},
		"not installed": {steps: []Step{stepOf(25, "1", objectsOf(oldBudget))}, want: "v1.25 APIRemoved chart todo"},
		"hooks": {release: Release{Present: objectsOf(oldBudget + " pre-upgrade")},
			steps: []Step{stepOf(25, "1", objectsOf(oldBudget+" pre-upgrade", oldBudget))},
			want:  "v1.25 APIRemoved release chart hook todo, v1.25 APIRemoved chart todo"},
		"a test that is not run": {release: Release{Present: objectsOf(oldBudget + " test")},
			steps: []Step{stepOf(25, "1", objectsOf(oldBudget+" test"))}, want: "v1.25 APIRemoved release chart hook"},
		"a test that is run": {release: Release{Present: objectsOf(oldBudget + " test"), RunsTests: true},
			steps: []Step{stepOf(25, "1", objectsOf(oldBudget+" test"))}, want: "v1.25 APIRemoved release chart hook todo"},
		"a test that is another hook, too": {steps: []Step{stepOf(25, "1", objectsOf(oldBudget+" test,post-upgrade"))},
			want: "v1.25 APIRemoved chart hook todo"},
		"pinned": {release: Release{Present: objectsOf(oldBudget), Kept: "unpin"}, steps: []Step{stepOf(25, "", Objects{})},
			want: "v1.25 APIRemoved release todo"},
		"paused, the chart uses the new API": {release: Release{Present: objectsOf(oldBudget), Paused: "resume"},
			steps: []Step{stepOf(25, "1", objectsOf(newBudget))}, want: "v1.25 APIRemoved release todo"},
		"paused, the chart excludes the version": {release: Release{Paused: "resume"}, steps: []Step{
			{Version: apilifecycle.Version{Major: 1, Minor: 25}, Chart: "1", Digest: "1", Constraint: "<1.25"}},
			want: "v1.25 KubeVersionExcluded todo"},
		"unknown": {steps: []Step{stepOf(37, "1", objectsOf(oldScaling))}, want: "v1.37 APIUnknown chart todo"},
		"another version solves it": {release: Release{Present: objectsOf(oldBudget)},
			steps: []Step{stepOf(24, "2", objectsOf(newBudget)), stepOf(25, "2", objectsOf(newBudget))},
			want:  "v1.24 VersionChanges, v1.24 APIDeprecated release"},
		"another version comes too late": {release: Release{Present: objectsOf(oldSchema)},
			steps: []Step{stepOf(32, "1", objectsOf(oldSchema)), stepOf(33, "2", Objects{})},
			want:  "v1.32 APIRemoved release chart todo, v1.33 VersionChanges"},
		"excluded in two steps": {release: Release{Present: objectsOf(oldBudget)}, steps: []Step{
			{Version: apilifecycle.Version{Major: 1, Minor: 25}, Chart: "1", Digest: "1", Constraint: "<1.25"},
			{Version: apilifecycle.Version{Major: 1, Minor: 26}, Chart: "1", Digest: "1", Constraint: "<1.25"}},
			want: "v1.25 KubeVersionExcluded todo, v1.25 APIRemoved release todo"},
		"excluded ahead": {release: Release{Ahead: []Ahead{{Step: Step{Version: v36, Chart: "2", Constraint: ">=1.37-0"}}}},
			steps: []Step{stepOf(37, "2", Objects{})}, want: "v1.36 KubeVersionExcluded todo, v1.37 VersionChanges"},
		"rendering fails ahead": {release: Release{Ahead: []Ahead{{Step: Step{Version: v36, Chart: "2", Failure: "nil"}}}},
			steps: []Step{stepOf(37, "2", Objects{})}, want: "v1.36 RenderingFails todo, v1.37 VersionChanges"},
		"not served ahead": {release: Release{Ahead: []Ahead{{Step: stepOf(36, "2", Objects{}),
			NotServed: objectsOf("storagemigration.k8s.io/v1 StorageVersionMigration web",
				"storagemigration.k8s.io/v1 StorageVersionMigration web2").Objects}}},
			steps: []Step{stepOf(37, "2", Objects{})}, want: "v1.36 APINotServed chart todo, v1.37 VersionChanges"},
		"fine ahead": {release: Release{Ahead: []Ahead{{Step: stepOf(36, "2", Objects{})}}},
			steps: []Step{stepOf(37, "2", Objects{})}, want: "v1.37 VersionChanges"},
		"excluded ahead of the second step": {release: Release{Ahead: []Ahead{{Step: stepOf(35, "2", Objects{})},
			{Step: Step{Version: v36, Chart: "3", Constraint: ">=1.37-0"}}}},
			steps: []Step{stepOf(36, "2", Objects{}), stepOf(37, "3", Objects{})},
			want:  "v1.36 KubeVersionExcluded todo, v1.36 VersionChanges, v1.37 VersionChanges"},
		"rendering fails": {steps: []Step{
			{Version: apilifecycle.Version{Major: 1, Minor: 25}, Chart: "1", Digest: "1", Failure: "nil pointer"}},
			want: "v1.25 RenderingFails todo"},
	} {
		tc.release.Chart, tc.release.Digest = "1", "1"
		var got []string
		for _, finding := range Check(&tc.release, tc.steps) {
			text := finding.Step + " " + string(finding.Reason)
			for _, word := range []struct {
				is   bool
				text string
			}{{finding.InRelease, " release"}, {finding.InChart, " chart"}, {finding.Hook, " hook"}, {finding.ToDo, " todo"}} {
				if word.is {
					text += word.text
				}
			}
			got = append(got, text)
			if finding.Message == "" || finding.WayOut == "" {
				t.Errorf("%s: no text: %+v", name, finding)
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, ", "), tc.want)
		}
	}
}

// TestRollback expects that a remark about an object that only the release has names the lost rollback.
func TestRollback(t *testing.T) {
	t.Parallel()
	for _, present := range []Objects{objectsOf(oldBudget), objectsOf(oldBudget + " pre-upgrade")} {
		release := Release{Chart: "1", Digest: "1", Present: present}
		got := Check(&release, []Step{stepOf(25, "1", objectsOf(newBudget))})
		if len(got) != 1 || got[0].ToDo || !strings.Contains(got[0].WayOut, "a rollback to the present Helm revision") {
			t.Errorf("got %+v", got)
		}
		release.Paused = "the HelmOp is paused"
		got = Check(&release, []Step{stepOf(25, "1", objectsOf(newBudget))})
		if len(got) != 1 || got[0].WayOut != release.Paused {
			t.Errorf("paused: got %+v", got)
		}
	}
}

// TestTexts compares the sentences about one object of each kind.
func TestTexts(t *testing.T) {
	t.Parallel()
	release := Release{Chart: "1", Digest: "1", Present: objectsOf(oldBudget)}
	many := make([]string, 0, 5)
	for i := range 5 {
		many = append(many, fmt.Sprint(oldBudget, i))
	}
	for want, step := range map[string]Step{
		"PodDisruptionBudget of policy/v1beta1 is not served since v1.25, use policy/v1: the release has web, and chart 1 " +
			"renders it again|set spec.source.ref to a version of the chart that uses policy/v1, or add it to " +
			"spec.refsByKubernetesVersion for \">=1.25\"": stepOf(25, "1", objectsOf(oldBudget)),
		"chart 1 renders web0, web1, web2 and 2 more|": stepOf(25, "1", objectsOf(many...)),
		"HorizontalPodAutoscaler of autoscaling/v2beta2 is not known to k8s.io/api: it is new, or was removed long ago, " +
			"use autoscaling/v2: chart 1 renders web|look the API up in " +
			deprecationGuide: stepOf(37, "1", objectsOf(oldScaling)),
		"Role of rbac.authorization.k8s.io/v1alpha1 is an alpha or beta version, and k8s.io/api does not say where it is " +
			"served, use rbac.authorization.k8s.io/v1: chart 1 renders web|look the API up": stepOf(37, "1",
			objectsOf("rbac.authorization.k8s.io/v1alpha1 Role web")),
		"is deprecated since v1.21 and not served from v1.25, use policy/v1: the release has web, and chart 1 renders it " +
			"again|nothing before this upgrade": stepOf(24, "1", objectsOf(oldBudget)),
	} {
		var got strings.Builder
		for _, finding := range Check(&release, []Step{step}) {
			got.WriteString(finding.Message + "|" + finding.WayOut + "\n")
		}
		if !strings.Contains(got.String(), want) {
			t.Errorf("got\n%swant\n%s", got.String(), want)
		}
	}
}
