"""Exports for Prometheus, Alertmanager, Grafana and the node exporter: the figures of a report as rules and panels."""
