// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// templates are the parsed templates.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"clip":       clip,
	"class":      classOf,
	"conditions": fleetview.SortedConditions,
	"count":      count,
	"few":        plural.Few,
	"join":       strings.Join,
	"keys":       keysText,
	"moment":     newMoment,
	"time":       func(t metav1.Time) time.Time { return t.Time },
	"eventTime":  fleetview.EventTime,
	"eventCount": fleetview.EventCount,
	"waits":      fleetview.WaitingFor,
	"scope":      func(l *layout, data any) scoped { return scoped{l, data} },
}).ParseFS(files, "templates/*.html"))

// scoped is the data for a template that needs the layout and other data.
type scoped struct {
	*layout
	Data any
}

// maxMessage is the largest number of characters of a message in a table.
const maxMessage = 300

// clip shortens a message. Line breaks become spaces.
func clip(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if runes := []rune(message); len(runes) > maxMessage {
		return strings.TrimRight(string(runes[:maxMessage]), " ,;:") + "…"
	}
	return message
}

// count calls plural.Count for a number of any type.
func count(n any, one, many string) string {
	text := fmt.Sprint(n)
	if text == "1" {
		return text + " " + one
	}
	return text + " " + many
}

// moment is a time in the forms that a page shows.
type moment struct {
	// Machine is the time for programs. Human is the distance from now for people: "5m ago" or "in 5m".
	Machine, Human string
}

func newMoment(now, at time.Time) *moment {
	if at.IsZero() {
		return nil
	}
	m := &moment{Machine: at.UTC().Format(time.RFC3339)}
	if at.After(now) {
		m.Human = "in " + duration.HumanDuration(at.Sub(now))
	} else {
		m.Human = duration.HumanDuration(now.Sub(at)) + " ago"
	}
	return m
}

// keysText returns the names of at most three objects.
func keysText(keys []client.ObjectKey, namespaces bool) string {
	names := make([]string, 0, len(keys))
	for _, key := range keys {
		if namespaces {
			names = append(names, key.String())
		} else {
			names = append(names, key.Name)
		}
	}
	return plural.Few(names, 3)
}
