// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// filesOf returns the files of an archive, without secrets. It does not return the README.
func filesOf(c *collection, m *masker, now time.Time) ([]archiveFile, error) {
	versions, err := yaml.Marshal(m.versions(&c.versions))
	if err != nil {
		return nil, err
	}
	files := []archiveFile{{"versions.yaml", string(versions),
		"versions of HelmOp, Kubernetes, providers and CRDs"}}
	var conditions, times []archiveRow
	for _, kind := range []struct {
		file, about string
		objects     []*unstructured.Unstructured
	}{
		{"helmops", "HelmOps", c.helmOps}, {"helmopreleases", "HelmOpReleases", c.releases},
		{"helmoprevisions", "HelmOpRevisions", c.revisions}, {"clusters", "Clusters", c.clusters},
		{"events", "Events", c.events}, {"deployments", "Deployments of the manager", c.deployments},
		{"pods", "Pods of the manager", unstructuredPods(c.pods)},
	} {
		var text strings.Builder
		for _, object := range kind.objects {
			masked := m.object(object.Object)
			document, err := yaml.Marshal(masked)
			if err != nil {
				return nil, err
			}
			text.WriteString("---\n" + string(document))
			conditions = append(conditions, conditionRows(masked, now)...)
			if kind.file == "events" {
				times = append(times, eventRow(masked))
			}
		}
		files = append(files, archiveFile{"objects/" + kind.file + ".yaml", text.String(),
			plural.Count(len(kind.objects), "object", "objects") + ": " + kind.about})
	}
	slices.SortStableFunc(times, func(a, b archiveRow) int { return cmp.Compare(a[0], b[0]) })
	for _, table := range []struct {
		name, about string
		columns     []string
		rows        []archiveRow
	}{
		{"conditions.txt", "all conditions", []string{"KIND", "NAMESPACE", "NAME", "TYPE", "STATUS", "REASON", "SINCE",
			"MESSAGE"}, conditions},
		{"events.txt", "the Events in order of time", []string{"TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"}, times},
	} {
		t := kube.NewTable(true, false, table.columns...)
		for _, row := range table.rows {
			t.Add(row...)
		}
		var text strings.Builder
		if err := t.Write(&text); err != nil {
			return nil, err
		}
		files = append(files, archiveFile{table.name, text.String(), table.about})
	}
	return append(files, logFiles(m, c.logs)...), nil
}

// archiveRow is a row of a table in an archive.
type archiveRow []string

// logFiles returns the logs without secrets.
func logFiles(m *masker, logs map[string][]entry) []archiveFile {
	var files []archiveFile
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		files = append(files, archiveFile{"logs/" + name, m.log(logs[name]),
			plural.Count(len(logs[name]), "entry", "entries") + " of the log of the manager"})
	}
	return files
}

// unstructuredPods converts Pods.
func unstructuredPods(pods []corev1.Pod) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for i := range pods {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pods[i])
		if err != nil {
			continue
		}
		object := &unstructured.Unstructured{Object: fields}
		object.SetAPIVersion("v1")
		object.SetKind("Pod")
		objects = append(objects, object)
	}
	return objects
}

// conditionRows returns the conditions of a masked object.
func conditionRows(object map[string]any, now time.Time) []archiveRow {
	var rows []archiveRow
	u := &unstructured.Unstructured{Object: object}
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, item := range conditions {
		fields, _ := item.(map[string]any)
		c := metav1.Condition{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) != nil {
			continue
		}
		rows = append(rows, archiveRow{u.GetKind(), u.GetNamespace(), u.GetName(), c.Type, string(c.Status), c.Reason,
			fleetview.Age(now, c.LastTransitionTime.Time), kube.Clip(c.Message, true)})
	}
	return rows
}

// eventRow returns a masked Event.
func eventRow(object map[string]any) archiveRow {
	e := &corev1.Event{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, e) != nil {
		return archiveRow{"", "", "", "", "an Event that cannot be parsed"}
	}
	return archiveRow{fleetview.EventTime(e).UTC().Format(time.RFC3339), e.Type, e.Reason,
		strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name, kube.Clip(e.Message, true)}
}

// readmeOf returns the README of an archive.
func readmeOf(c *collection, m *masker, files []archiveFile, scope string, now time.Time) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# HelmOp debug archive\n\nWritten at %s by %s.\nIt is about %s.\n\n## Files\n\n"+
		"| file | has |\n|---|---|\n", now.UTC().Format(time.RFC3339), version.String(), scope)
	for _, file := range files {
		fmt.Fprintf(&text, "| %s | %s |\n", file.name, file.about)
	}
	text.WriteString(`
## Left out

- Secrets, and the data of ConfigMaps.
- In the objects, "[redacted]" replaces: values, templates of values and patches; annotations of other programs,
  last-applied-configuration among them; the values of variables of Clusters; environment variables except HOME, the
  proxies and settings of Go; arguments that look like credentials; user and password in URLs.
- Other containers of the manager's Pods, except their names and images.
- In all texts and logs, "[redacted]" replaces the values of the Secrets to which the managers and all HelmOps of the
  namespace refer (with --all-namespaces: of all namespaces), and the values in specs whose keys look secret.
- In logs of a manager with --v=8 or more: the entries with the content of requests and responses.
- Logs before the time or the lines that the command was asked for; Events that the API server no longer has.

The archive has names of objects, labels, addresses of registries and API servers, and messages of charts. Check that
you may share them.

## Not read

`)
	if len(c.notRead) == 0 {
		text.WriteString("Everything was read.\n")
	}
	for _, line := range c.notRead {
		text.WriteString("- " + m.text(line) + "\n")
	}
	return text.String()
}
