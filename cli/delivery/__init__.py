"""How people and monitoring systems are told: alerts, heartbeats, figures. All of it may fail."""
