"""Planning from a log: how to spread it over replicas, how much KV memory it takes, what the flags should say."""
